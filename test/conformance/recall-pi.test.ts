/** Pi 1.6.0: that its history is whole over every way in which a conversation goes on. */
import { PI_HISTORY } from "../support/history/native.ts";
import { PI_SUBJECT } from "./suite/pi-subject.ts";
import { recallSuite } from "./suite/recall.ts";

recallSuite(PI_SUBJECT, PI_HISTORY);
