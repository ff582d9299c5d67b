/** Claude Code 2.1.220, the seeds'\'' pin: that its history is whole over every way in which a conversation goes on. */
import { CLAUDE_HISTORIES } from "../support/history/native.ts";
import { claudeSubject } from "./suite/claude-subject.ts";
import { recallSuite } from "./suite/recall.ts";

recallSuite(claudeSubject("2.1.220"), CLAUDE_HISTORIES["2.1.220"], { claude: "2.1.220" });
