/** Kilo 7.7.7 under the suite of the driver contract. */
import { driverSuite } from "./driver-suite.ts";
import { KILO_SUBJECT } from "./suite/served.ts";

driverSuite(KILO_SUBJECT);
