/**
 * The one suite of the driver contract: a real, pinned CLI in a process sandbox under the whole stack (host, bridge,
 * CLI, loopback model). A driver is done when this passes over it; what its manifest lacks is skipped by name, so a gap
 * stands in the list of tests and is never silent.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { afterAll } from "vitest";
import { abortTests } from "./suite/aborts.ts";
import { backgroundTests } from "./suite/background.ts";
import { clockTests } from "./suite/clock.ts";
import { deathTests } from "./suite/deaths.ts";
import { limitTests } from "./suite/limits.ts";
import { lineageTests } from "./suite/lineage.ts";
import { lossTests } from "./suite/losses.ts";
import { permissionTests } from "./suite/permissions.ts";
import { providerTests } from "./suite/providers.ts";
import { questionTests } from "./suite/questions.ts";
import { requestTests } from "./suite/requests.ts";
import { resumeTests } from "./suite/resume.ts";
import { type DriverSubject, openStage } from "./suite/subject.ts";
import { DEAD_PROXIES, surroundingTests } from "./suite/surroundings.ts";
import { textTests } from "./suite/texts.ts";
import { toolTests } from "./suite/tools.ts";
import { usageTests } from "./suite/usage.ts";

/** Short enough to be waited for, long enough for a loaded machine. */
const SHORT = {
  canaryMs: 3000,
  canaryEveryMs: 1000,
  silenceMs: 6000,
  abortMs: 3000,
  endOverdueMs: 2000,
  providerWaitMs: 3000,
  questionMs: 1500,
  requestMs: 8000,
};

export function driverSuite(subject: DriverSubject): void {
  hardSuite(subject);
  const stage = openStage(subject);
  textTests(stage, subject);
  toolTests(stage, subject);
  usageTests(stage, subject);
  permissionTests(stage, subject);
  lineageTests(stage, subject);
  questionTests(stage, subject);
  requestTests(stage, subject);
  backgroundTests(stage, subject);
  providerTests(stage, subject);
  abortTests(stage, subject);
  deathTests(stage, subject);
  resumeTests(stage, subject);
  clockTests(stage, subject);
}

/** Short limits, a relay before the CLI's server, dead proxies around the bridge. */
function hardSuite(subject: DriverSubject): void {
  const { server, manifest } = subject;
  const folder = mkdtempSync("/tmp/hf-relay-");
  const requests = `${folder}/requests`;
  const stage = openStage(subject, {
    limits: SHORT,
    environment: DEAD_PROXIES,
    ...(server === null ? {} : { commands: { [manifest.cli]: server.relay(requests) } }),
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  surroundingTests(stage, subject);
  limitTests(stage, subject, SHORT.requestMs);
  lossTests(stage, subject, () => requests);
}
