// A slot in a temporary directory and the stand-in of test/stand-ins/lines.ts in it, as a real process with real time.
// Ends what it started.
import { randomUUID } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { reapSlot } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import type { LaunchRequest, Observation } from "../../../../bridge/drivers/driver.ts";
import type { ProcessExit } from "../../../../bridge/process.ts";
import { openSlot } from "../../../../bridge/slots.ts";
import { DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { LineStep } from "../../../stand-ins/lines.ts";
import { type KeptLog, keptLog } from "../../../support/kept-log.ts";
import { LAUNCH } from "../../../support/samples.ts";
import { standIn } from "../../../support/stand-in.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";

export const ENVIRONMENT = { PATH: "/usr/bin:/bin" };

const LIMITS: DriverLimits = { ...DEFAULT_LIMITS, requestMs: 2000, abortMs: 600, stopMs: 1000 };

export interface PipeRig {
  request: LaunchRequest;
  log: KeptLog;
  /** What the listener was told, in its order: `exit 7`, `1 live`, `1 lost REASON`, `observation KIND`. */
  told: string[];
  observations: Observation[];
  exits: ProcessExit[];
}

export async function pipeRig(
  steps: readonly LineStep[],
  limits: Partial<DriverLimits> = {},
): Promise<PipeRig> {
  const directory = temporaryDirectory();
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
  const all = { ...LIMITS, ...limits };
  const slot = await openSlot(
    {
      storeId: "store-1",
      sandboxId: randomUUID(),
      isolation: "process",
      controllerSocket: "/none",
      modelSocket: "/none",
      tokenFile: "/none",
      stateDirectory: "/none",
      slotsDirectory: join(directory, "slots"),
      workspace: join(directory, "workspace"),
      users: null,
      clis: [],
      limits: all,
    },
    "m-1",
  );
  onTestFinished(async () => {
    await reapSlot(slot.mark, realClock, 10_000);
  });
  const log = keptLog();
  const told: string[] = [];
  const observations: Observation[] = [];
  const exits: ProcessExit[] = [];
  let subscriptions = 0;
  return {
    log,
    told,
    observations,
    exits,
    request: {
      slot,
      launch: LAUNCH,
      command: standIn("lines.ts", JSON.stringify(steps)),
      cliVersion: "1.0.0",
      processGeneration: 1,
      modelUrl: "http://127.0.0.1:1",
      modelKey: "hfm.token",
      limits: all,
      clock: realClock,
      log,
      listener: {
        onObservation(observation) {
          observations.push(observation);
          told.push(`observation ${observation.kind}`);
        },
        onSubscription: (number, state, detail) => told.push(`${number} ${state} ${detail}`.trim()),
        onUnrequested: () => undefined,
        onExit(exit) {
          exits.push(exit);
          told.push(`exit ${exit.code}`);
        },
      },
      forks: false,
      nextSubscription: () => ++subscriptions,
      signal: new AbortController().signal,
    },
  };
}
