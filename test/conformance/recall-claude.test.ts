/** Claude Code 2.1.332, the version that the image ships: that its history is whole over every way in which a conversation goes on. */
import { CLAUDE_HISTORIES } from "../support/history/native.ts";
import { claudeSubject } from "./suite/claude-subject.ts";
import { recallSuite } from "./suite/recall.ts";

recallSuite(claudeSubject("2.1.332"), CLAUDE_HISTORIES["2.1.332"]);
