/** Codex 0.171.0 under the suite of the driver contract. */
import { driverSuite } from "./driver-suite.ts";
import { CODEX_SUBJECT } from "./suite/codex-subject.ts";

driverSuite(CODEX_SUBJECT);
