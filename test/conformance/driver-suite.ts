/**
 * The one suite of the driver contract: a real, pinned CLI in a process sandbox under the whole stack (host, bridge,
 * CLI, loopback model). A driver is done when this passes over it; what its manifest lacks is skipped by name, so a gap
 * stands in the list of tests and is never silent.
 */
import { abortTests } from "./suite/aborts.ts";
import { deathTests } from "./suite/deaths.ts";
import { permissionTests } from "./suite/permissions.ts";
import { providerTests } from "./suite/providers.ts";
import { resumeTests } from "./suite/resume.ts";
import { type DriverSubject, openStage } from "./suite/subject.ts";
import { textTests } from "./suite/texts.ts";
import { toolTests } from "./suite/tools.ts";

export function driverSuite(subject: DriverSubject): void {
  const stage = openStage(subject);
  textTests(stage, subject);
  toolTests(stage, subject);
  permissionTests(stage, subject);
  providerTests(stage);
  abortTests(stage, subject);
  deathTests(stage, subject);
  resumeTests(stage, subject);
}
