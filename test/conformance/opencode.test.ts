/** OpenCode 1.18.33 under the suite of the driver contract. */
import { driverSuite } from "./driver-suite.ts";
import { OPENCODE_SUBJECT } from "./suite/served.ts";

driverSuite(OPENCODE_SUBJECT);
