/** OpenCode 1.18.33: that its history is whole over every way in which a conversation goes on. */
import { OPENCODE_HISTORY } from "../support/history/native.ts";
import { recallSuite } from "./suite/recall.ts";
import { OPENCODE_SUBJECT } from "./suite/served.ts";

recallSuite(OPENCODE_SUBJECT, OPENCODE_HISTORY);
