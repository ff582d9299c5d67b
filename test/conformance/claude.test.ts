/** Claude Code 2.1.332, the version that the image ships, under the whole suite of the driver contract. */
import { driverSuite } from "./driver-suite.ts";
import { claudeSubject } from "./suite/claude-subject.ts";

driverSuite(claudeSubject("2.1.332"));
