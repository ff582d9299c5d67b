// A slot in a temporary directory, and the real driver on the stand-in as a real process. Ends all it started.
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { listSlot, reapSlot } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import { CODEX } from "../../../../bridge/drivers/codex/driver.ts";
import type { LaunchRequest, Observation, Resident } from "../../../../bridge/drivers/driver.ts";
import { openSlot, type Slot } from "../../../../bridge/slots.ts";
import { type BridgeConfig, DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import type { Script } from "../../../stand-ins/codex/script.ts";
import { type KeptLog, keptLog } from "../../../support/kept-log.ts";
import { CONTAINER, LAUNCH } from "../../../support/samples.ts";
import { standIn } from "../../../support/stand-in.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";
import { until } from "../../../support/until.ts";

const LIMITS: DriverLimits = {
  ...DEFAULT_LIMITS,
  readyMs: 10_000,
  requestMs: 1500,
  endOverdueMs: 300,
  abortMs: 1500,
  stopMs: 1000,
  questionMs: 500,
  providerWaitMs: 400,
};

export const THREAD = "01a22ce0-0000-7000-8000-000000000001";
/** The id of the first prompt's turn. */
export const TURN = "01a22ce0-1111-7000-8000-000000000001";

type Kind = Observation["kind"];
type Seen<K extends Kind> = Extract<Observation, { kind: K }>;

export interface Rig {
  slot: Slot;
  observations: Observation[];
  log: KeptLog;
  /** Live and lost pipes, exits, and what codex did by itself. */
  told: string[];
  request(changes?: Partial<LaunchRequest>): LaunchRequest;
  /** For processes that start from here on. */
  script(script: Script): void;
  launch(changes?: Partial<LaunchRequest>): Promise<Resident>;
  locator(changes?: Partial<Locator>): Locator;
  /** What the stand-in has read, line by line. */
  read(): Array<{ id?: unknown; method?: string; params?: unknown; result?: unknown; error?: unknown }>;
  seen<K extends Kind>(kind: K): Promise<Seen<K>>;
  of<K extends Kind>(kind: K): Seen<K>[];
  processes(): Promise<number>;
  /** Plays what the script has for it. */
  signal(): Promise<void>;
}

export async function createRig(script: Script = {}, limits: Partial<DriverLimits> = {}): Promise<Rig> {
  const directory = temporaryDirectory();
  const [scriptPath, readPath] = [join(directory, "script.json"), join(directory, "read")];
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
        launch: { ...LAUNCH, cli: "codex" },
        command: standIn("codex/main.ts", scriptPath),
        cliVersion: "0.171.0",
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
    script: (next) => writeFileSync(scriptPath, JSON.stringify({ readPath, ...next })),
    async launch(changes = {}) {
      const result = await CODEX.launch(rig.request(changes), null);
      if (result.kind !== "new") throw new Error(`expected a new thread, got ${result.kind}`);
      return result.resident;
    },
    locator: (changes = {}) => ({
      format: 1,
      cli: "codex",
      cliVersion: "0.171.0",
      nativeId: THREAD,
      directory: slot.workspace,
      container: CONTAINER,
      settledTurns: 1,
      tail: { role: "assistant", id: TURN },
      ...changes,
    }),
    read: () =>
      existsSync(readPath)
        ? readFileSync(readPath, "utf8")
            .trim()
            .split("\n")
            .map((line) => JSON.parse(line) as ReturnType<Rig["read"]>[number])
        : [],
    seen: (kind) => until(kind, () => rig.of(kind)[0] ?? null, 5000),
    of: <K extends Kind>(kind: K) =>
      observations.filter((observation): observation is Seen<K> => observation.kind === kind),
    async signal() {
      for (const { pid } of await listSlot(slot.mark)) process.kill(pid, "SIGUSR2");
    },
    processes: async () => (await listSlot(slot.mark)).length,
  };
  rig.script(script);
  return rig;
}

/** Passes the gate and sends a text, as the turn's runner does; gives what became of the submission. */
export async function submit(resident: Resident, text = "Hello.") {
  await resident.gate();
  return resident.submit({ text, nativeMessage: resident.nextMessageId() });
}

/** A record of a thread as codex writes it, with these turns in it. */
export function recordOf(thread: string, turns: readonly string[]): string {
  const lines = [
    { type: "session_meta", payload: { id: thread } },
    ...turns.flatMap((turn) => [
      { type: "event_msg", payload: { type: "task_started", turn_id: turn } },
      { type: "response_item", payload: { type: "message", id: `msg_${turn}` } },
      { type: "event_msg", payload: { type: "task_complete", turn_id: turn } },
    ]),
  ];
  return lines.map((line, ordinal) => `${JSON.stringify({ timestamp: "x", ordinal, ...line })}\n`).join("");
}
