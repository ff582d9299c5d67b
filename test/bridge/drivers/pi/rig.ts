// A slot in a temporary directory, and the real driver on the stand-in as a real process. Ends all it started.
import { randomUUID } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { listSlot, reapSlot } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import type { LaunchRequest, Observation, Resident } from "../../../../bridge/drivers/driver.ts";
import { PI } from "../../../../bridge/drivers/pi/driver.ts";
import { openSlot, type Slot } from "../../../../bridge/slots.ts";
import { type BridgeConfig, DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import type { Script } from "../../../stand-ins/pi/script.ts";
import { type KeptLog, keptLog } from "../../../support/kept-log.ts";
import { CONTAINER, LAUNCH } from "../../../support/samples.ts";
import { standIn } from "../../../support/stand-in.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";
import { until } from "../../../support/until.ts";

const LIMITS: DriverLimits = {
  ...DEFAULT_LIMITS,
  readyMs: 10_000,
  requestMs: 2000,
  firstEventMs: 1000,
  endOverdueMs: 300,
  abortMs: 1500,
  stopMs: 1000,
  questionMs: 500,
};

export const SESSION = "01a22ce0-0000-7000-8000-000000000001";

type Kind = Observation["kind"];
type Seen<K extends Kind> = Extract<Observation, { kind: K }>;

export interface Rig {
  slot: Slot;
  observations: Observation[];
  log: KeptLog;
  /** Live and lost pipes, and what pi did by itself. */
  told: string[];
  request(changes?: Partial<LaunchRequest>): LaunchRequest;
  script(script: Script): void;
  launch(changes?: Partial<LaunchRequest>): Promise<Resident>;
  locator(changes?: Partial<Locator>): Locator;
  seen<K extends Kind>(kind: K): Promise<Seen<K>>;
  of<K extends Kind>(kind: K): Seen<K>[];
  processes(): Promise<number>;
}

export async function createRig(script: Script = {}, limits: Partial<DriverLimits> = {}): Promise<Rig> {
  const directory = temporaryDirectory();
  const scriptPath = join(directory, "script.json");
  const [slotsDirectory, workspace] = [join(directory, "slots"), join(directory, "workspace")];
  for (const path of [slotsDirectory, workspace]) mkdirSync(path);
  const config = { sandboxId: randomUUID(), slotsDirectory, workspace, users: null };
  const slot = await openSlot(config as BridgeConfig, "m-1");
  onTestFinished(async () => {
    const left = await reapSlot(slot.mark, realClock, 2000);
    if (left.length > 0) throw new Error(`left: ${left.map(({ pid }) => pid).join(" ")}`);
  });
  const observations: Observation[] = [];
  const told: string[] = [];
  const log = keptLog();
  let generation = 0;
  let subscription = 0;
  const rig: Rig = {
    slot,
    observations,
    told,
    log,
    request(changes = {}) {
      generation += 1;
      return {
        slot,
        launch: { ...LAUNCH, cli: "pi" },
        command: standIn("pi/main.ts", scriptPath),
        cliVersion: "1.6.0",
        processGeneration: generation,
        modelUrl: "http://127.0.0.1:9",
        modelKey: "hfm.token",
        limits: { ...LIMITS, ...limits },
        clock: realClock,
        log,
        listener: {
          onObservation: (observation) => void observations.push(observation),
          onSubscription: (number, state, detail) => told.push(`${number} ${state} ${detail}`.trim()),
          onUnrequested: (session, state) => told.push(`unrequested ${state} in ${session}`),
          onExit: ({ code, signal }) => told.push(`exit ${code ?? signal}`),
        },
        forks: false,
        nextSubscription: () => ++subscription,
        signal: new AbortController().signal,
        ...changes,
      };
    },
    script: (next) => writeFileSync(scriptPath, JSON.stringify(next)),
    async launch(changes = {}) {
      const result = await PI.launch(rig.request(changes), null);
      if (result.kind !== "new") throw new Error(`expected a new session, got ${result.kind}`);
      return result.resident;
    },
    locator: (changes = {}) => ({
      format: 1,
      cli: "pi",
      cliVersion: "1.6.0",
      nativeId: SESSION,
      directory: slot.workspace,
      container: CONTAINER,
      settledTurns: 1,
      tail: { role: "assistant", id: "a2" },
      ...changes,
    }),
    seen: (kind) => until(kind, () => rig.of(kind)[0] ?? null, 5000),
    of: <K extends Kind>(kind: K) =>
      observations.filter((observation): observation is Seen<K> => observation.kind === kind),
    processes: async () => (await listSlot(slot.mark)).length,
  };
  rig.script(script);
  return rig;
}

/** Sends a text, and gives what became of the submission. */
export const submit = (resident: Resident, text = "Hello.") =>
  resident.submit({ text, nativeMessage: resident.nextMessageId() });
