// A slot in a temporary directory, and the driver of Claude Code on a real process in it: the CLI itself, or a stand-in.
import { readFileSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { listSlot, reapSlot } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import { createClaudeDriver } from "../../../../bridge/drivers/claude/driver.ts";
import type {
  Driver,
  DriverManifest,
  LaunchRequest,
  LaunchResult,
  Observation,
  Resident,
} from "../../../../bridge/drivers/driver.ts";
import { openSlot, type Slot } from "../../../../bridge/slots.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { type BridgeConfig, DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Launch } from "../../../../protocol/launch.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import { ALLOW_ALL } from "../../../../protocol/permission-policy.ts";
import type { Script } from "../../../stand-ins/claude/script.ts";
import { CONTAINER, LAUNCH } from "../../../support/samples.ts";
import { standIn } from "../../../support/stand-in.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";
import { within } from "../../../support/until.ts";

type Kind = Observation["kind"];
type Seen<K extends Kind> = Extract<Observation, { kind: K }>;

export interface RigOptions {
  command: readonly string[];
  /** Default: one that needs no retirement. */
  version?: string;
  ranges?: DriverManifest["ranges"];
  launch?: Partial<Launch>;
  limits?: Partial<DriverLimits>;
  modelUrl?: string;
  /** Takes the end of it. Default: the running test does. */
  atEnd?: (end: () => Promise<void>) => void;
}

export interface Rig {
  slot: Slot;
  driver: Driver;
  observations: Observation[];
  /** What the CLI did by itself. */
  unrequested: string[];
  subscriptions: string[];
  warnings: string[];
  exits: Array<{ code: number | null; signal: string | null }>;
  request(changes?: Partial<LaunchRequest>): LaunchRequest;
  resume(locator: Locator, changes?: Partial<LaunchRequest>): Promise<LaunchResult>;
  /** A new session on a new process. */
  launch(changes?: Partial<LaunchRequest>): Promise<Resident>;
  /** The first observation of this kind from here on that fits, or one that is there already. */
  seen<K extends Kind>(kind: K, fits?: (observation: Seen<K>) => boolean): Promise<Seen<K>>;
  of<K extends Kind>(kind: K): Array<Seen<K>>;
  processes(): Promise<number>;
}

const LIMITS: DriverLimits = {
  ...DEFAULT_LIMITS,
  readyMs: 20_000,
  requestMs: 5000,
  firstEventMs: 5000,
  abortMs: 5000,
  stopMs: 3000,
};

export async function createRig(options: RigOptions): Promise<Rig> {
  const directory = await mkdtemp("/tmp/hf-claude-");
  const [slotsDirectory, workspace] = [join(directory, "slots"), join(directory, "workspace")];
  await Promise.all([slotsDirectory, workspace].map((path) => mkdir(path)));
  const config = { sandboxId: `rig-${process.pid}`, slotsDirectory, workspace, users: null };
  const slot = await openSlot(config as BridgeConfig, `m-${Math.random().toString(36).slice(2)}`);
  const { atEnd = onTestFinished } = options;
  atEnd(async () => {
    const left = await reapSlot(slot.mark, realClock, 5000);
    await rm(directory, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`left: ${left.map(({ pid }) => pid).join(" ")}`);
  });

  const observations: Observation[] = [];
  const waiters = new Set<() => void>();
  let generation = 0;
  let subscription = 0;
  const rig: Rig = {
    slot,
    driver: createClaudeDriver(options.ranges),
    observations,
    unrequested: [],
    subscriptions: [],
    warnings: [],
    exits: [],
    request: (changes = {}) => ({
      slot,
      launch: {
        ...LAUNCH,
        cli: "claude",
        model: { ...LAUNCH.model, protocol: "messages" },
        permissions: ALLOW_ALL,
        ...options.launch,
      },
      command: options.command,
      cliVersion: options.version ?? "2.1.332",
      processGeneration: ++generation,
      modelUrl: options.modelUrl ?? "http://127.0.0.1:9",
      modelKey: "hfm.token",
      limits: { ...LIMITS, ...options.limits },
      clock: realClock,
      log: {
        info: () => undefined,
        warn: (what, fields) => rig.warnings.push(`${what} ${JSON.stringify(fields)}`),
      },
      listener: {
        onObservation(observation) {
          observations.push(observation);
          for (const wake of [...waiters]) wake();
        },
        onSubscription: (number, state, detail) =>
          rig.subscriptions.push(`${number} ${state} ${detail}`.trim()),
        onUnrequested: (session, state, detail) => rig.unrequested.push(`${session} ${state}: ${detail}`),
        onExit: ({ code, signal }) => rig.exits.push({ code, signal }),
      },
      forks: false,
      nextSubscription: () => ++subscription,
      signal: new AbortController().signal,
      ...changes,
    }),
    resume: (locator, changes) => rig.driver.launch(rig.request(changes), locator),
    async launch(changes) {
      const result = await rig.driver.launch(rig.request(changes), null);
      if (result.kind !== "new") throw new Error(`expected a new session, got ${result.kind}`);
      return result.resident;
    },
    seen: (kind, fits = () => true) =>
      within(
        `an observation ${kind}`,
        new Promise((resolve) => {
          const look = () => {
            const found = rig.of(kind).find(fits);
            if (found === undefined) return;
            waiters.delete(look);
            resolve(found);
          };
          waiters.add(look);
          look();
        }),
        20_000,
      ),
    of: <K extends Kind>(kind: K) => observations.filter((each): each is Seen<K> => each.kind === kind),
    processes: async () => (await listSlot(slot.mark)).length,
  };
  return rig;
}

/** Passes the gate and sends, as the runner does it. */
export async function submit(resident: Resident, text: string): Promise<string> {
  await resident.gate();
  const nativeMessage = resident.nextMessageId();
  const result = await resident.submit({ text, nativeMessage });
  if (result.kind !== "accepted") throw new Error(`the prompt was ${result.kind}: ${result.detail}`);
  return nativeMessage;
}

/** One whole turn. */
export async function playOn(rig: Rig, resident: Resident, text: string): Promise<Seen<"native_end">> {
  rig.observations.length = 0;
  await submit(resident, text);
  const end = await rig.seen("native_end");
  await resident.verify();
  resident.endTurn();
  return end;
}

export function locatorOf(resident: Resident, tail: Locator["tail"], settledTurns = 1): Locator {
  return {
    format: 1,
    cli: "claude",
    cliVersion: "2.1.332",
    nativeId: resident.nativeId,
    directory: resident.directory,
    container: CONTAINER,
    settledTurns,
    tail,
  };
}

/** The answer's parts, as a runner assembles them from the observations. */
export function partsOf(rig: Rig): string[] {
  const output = createTurnOutput();
  for (const each of rig.observations) {
    if (each.kind === "text") output.put(each.part, each.from, each.text);
    if (each.kind === "withdrawn") output.withdraw(each.part);
  }
  return output.parts();
}

export interface StandInRig extends Rig {
  script(script: Script): void;
  /** What the stand-in has read, line by line. */
  lines(): Array<Record<string, unknown>>;
  /** The texts of the user among them. */
  prompts(): string[];
}

/** The driver on the stand-in. */
export async function standInRig(
  script: Script = {},
  options: Partial<RigOptions> = {},
): Promise<StandInRig> {
  const directory = temporaryDirectory();
  const [scriptPath, linesPath] = [join(directory, "script.json"), join(directory, "lines.ndjson")];
  writeFileSync(linesPath, "");
  const put = (next: Script) => writeFileSync(scriptPath, JSON.stringify(next));
  put(script);
  const rig = await createRig({
    command: standIn("claude/main.ts", scriptPath),
    ...options,
    limits: SHORT,
    ...(options.limits === undefined ? {} : { limits: { ...SHORT, ...options.limits } }),
  });
  const lines = () =>
    readFileSync(linesPath, "utf8")
      .split("\n")
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
  return {
    ...rig,
    script: put,
    lines,
    prompts: () =>
      lines().flatMap(({ type, message }) => {
        const content = (message as { content?: Array<{ text: string }> } | undefined)?.content ?? [];
        return type === "user" ? content.map(({ text }) => text) : [];
      }),
  };
}

/** Short enough to be waited for, long enough for a loaded machine. */
const SHORT: Partial<DriverLimits> = {
  readyMs: 8000,
  requestMs: 1500,
  canaryMs: 800,
  firstEventMs: 1500,
  abortMs: 1500,
  stopMs: 1000,
  questionMs: 800,
};
