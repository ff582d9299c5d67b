/** Kilo 7.7.7: that its history is whole over every way in which a conversation goes on. */
import { KILO_HISTORY } from "../support/history/native.ts";
import { recallSuite } from "./suite/recall.ts";
import { KILO_SUBJECT } from "./suite/served.ts";

recallSuite(KILO_SUBJECT, KILO_HISTORY);
