/** Codex 0.171.0: that its history is whole over every way in which a conversation goes on. */
import { CODEX_HISTORY } from "../support/history/native.ts";
import { CODEX_SUBJECT } from "./suite/codex-subject.ts";
import { recallSuite } from "./suite/recall.ts";

recallSuite(CODEX_SUBJECT, CODEX_HISTORY);
