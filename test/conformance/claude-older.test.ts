/**
 * Claude Code 2.1.220, the seeds' pin, under the parts of the driver contract in which a version may differ: what a process
 * answers, asks, retries, aborts, loses and resumes. The rest is the bridge's own, and is tested over the shipped version.
 */
import { abortTests } from "./suite/aborts.ts";
import { claudeSubject } from "./suite/claude-subject.ts";
import { deathTests } from "./suite/deaths.ts";
import { permissionTests } from "./suite/permissions.ts";
import { providerTests } from "./suite/providers.ts";
import { questionTests } from "./suite/questions.ts";
import { resumeTests } from "./suite/resume.ts";
import { openStage } from "./suite/subject.ts";
import { textTests } from "./suite/texts.ts";
import { toolTests } from "./suite/tools.ts";
import { usageTests } from "./suite/usage.ts";

const subject = claudeSubject("2.1.220");
const stage = openStage(subject, { claude: "2.1.220" });

textTests(stage, subject);
toolTests(stage, subject);
usageTests(stage, subject);
permissionTests(stage, subject);
questionTests(stage, subject);
providerTests(stage, subject);
abortTests(stage, subject);
deathTests(stage, subject);
resumeTests(stage, subject);
