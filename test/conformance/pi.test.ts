/** Pi 1.6.0 under the suite of the driver contract. */
import { driverSuite } from "./driver-suite.ts";
import { PI_SUBJECT } from "./suite/pi-subject.ts";

driverSuite(PI_SUBJECT);
