// A slot in a temporary directory, and the real driver on the stand-in server as a real process. Ends all it started.
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { onTestFinished } from "vitest";
import { listSlot, reapSlot } from "../../../../bridge/census.ts";
import { realClock } from "../../../../bridge/clock.ts";
import type { LaunchRequest, Observation, Resident } from "../../../../bridge/drivers/driver.ts";
import { KILO } from "../../../../bridge/drivers/kilo/traits.ts";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { createServeDriver } from "../../../../bridge/drivers/serve/driver.ts";
import { openSlot, type Slot } from "../../../../bridge/slots.ts";
import { type BridgeConfig, DEFAULT_LIMITS, type DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import type { Script, Step, TurnPlan } from "../../../stand-ins/serve/script.ts";
import { CONTAINER, LAUNCH } from "../../../support/samples.ts";

const source = fileURLToPath(new URL("../../../stand-ins/serve/main.ts", import.meta.url));
let bundled: Promise<string> | null = null;

/** The stand-in as one file: it starts in half the time, and is started more than a hundred times. */
function standIn(): Promise<string> {
  bundled ??= build({
    entryPoints: [source],
    bundle: true,
    platform: "node",
    format: "esm",
    write: false,
  }).then(({ outputFiles }) => outputFiles[0]?.text ?? "");
  return bundled;
}

const LIMITS: DriverLimits = {
  ...DEFAULT_LIMITS,
  readyMs: 10_000,
  requestMs: 2000,
  canaryMs: 400,
  silenceMs: 3000,
  firstEventMs: 1000,
  endOverdueMs: 300,
  abortMs: 800,
  stopMs: 1000,
  permissionMs: 1500,
};

interface CallSeen {
  method: string;
  path: string;
  body: Record<string, unknown> | null;
}

type Kind = Observation["kind"];
type Seen<K extends Kind> = Extract<Observation, { kind: K }>;

export interface Rig {
  slot: Slot;
  driver: ReturnType<typeof createServeDriver>;
  observations: Observation[];
  subscriptions: string[];
  /** What the CLI did by itself, each as `SESSION state: detail`. */
  unrequested: string[];
  warnings: string[];
  /** Settles when the process has exited. */
  exited: Promise<unknown>;
  request(changes?: Partial<LaunchRequest>): LaunchRequest;
  script(script: Script): Promise<void>;
  /** A new session on a new process. */
  launch(changes?: Partial<LaunchRequest>): Promise<Resident>;
  /** The first observation of this kind, now or later. */
  seen<K extends Kind>(kind: K, fits?: (observation: Seen<K>) => boolean): Promise<Seen<K>>;
  of<K extends Kind>(kind: K): Seen<K>[];
  calls(what?: string): Promise<CallSeen[]>;
  command(body: Record<string, unknown>): Promise<void>;
  /** The stand-in's own store of sessions. */
  store(): Promise<StoredSession[]>;
  keep(sessions: StoredSession[]): Promise<void>;
  processes(): Promise<number>;
  /** Makes a session on the same server that is nobody's of ours; gives its id. */
  launchStranger(): Promise<string>;
  /** Somebody else's call to the same server. */
  post(path: string, body: unknown): Promise<unknown>;
  port(): Promise<number>;
  /** The password of the running server, as any process of its user could read it. */
  password(): Promise<string>;
}

export interface StoredSession {
  id: string;
  directory: string;
  messages: Array<{ info: { id: string; role: string }; parts: Array<{ type: string; text?: string }> }>;
}

export async function createRig(script: Script = {}, limits: Partial<DriverLimits> = {}): Promise<Rig> {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-serve-"));
  const program = join(directory, "stand-in.mjs");
  const scriptPath = join(directory, "script.json");
  const slotsDirectory = join(directory, "slots");
  const workspace = join(directory, "workspace");
  await Promise.all([slotsDirectory, workspace].map((path) => mkdir(path)));
  const config = { sandboxId: `test-${process.pid}`, slotsDirectory, workspace, users: null };
  const slot = await openSlot(config as BridgeConfig, `m-${Math.random().toString(36).slice(2)}`);

  const observations: Observation[] = [];
  const waiters = new Set<() => void>();
  const subscriptions: string[] = [];
  const unrequested: string[] = [];
  const traits = script.cli === "kilo" ? KILO : OPENCODE;
  const warnings: string[] = [];
  let generation = 0;
  let subscription = 0;
  let markExited: (exit: unknown) => void = () => undefined;
  const exited = new Promise((resolve) => {
    markExited = resolve;
  });
  onTestFinished(async () => {
    const left = await reapSlot(slot.mark, realClock, 2000);
    await rm(directory, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`left: ${left.map(({ pid }) => pid).join(" ")}`);
  });

  const storePath = join(slot.data, "stand-in.json");
  const rig: Rig = {
    slot,
    driver: createServeDriver(traits),
    observations,
    subscriptions,
    unrequested,
    warnings,
    exited,
    request(changes = {}) {
      generation += 1;
      return {
        slot,
        launch: { ...LAUNCH, cli: traits.cli },
        command: [process.execPath, program, scriptPath],
        cliVersion: traits === KILO ? "7.7.7" : "1.18.33",
        processGeneration: generation,
        modelUrl: "http://127.0.0.1:9",
        modelKey: "hfm.token",
        limits: { ...LIMITS, ...limits },
        clock: realClock,
        log: {
          info: () => undefined,
          warn: (what, fields) => warnings.push(`${what} ${JSON.stringify(fields)}`),
        },
        listener: {
          onObservation(observation) {
            observations.push(observation);
            for (const wake of [...waiters]) wake();
          },
          onSubscription: (number, state, detail) =>
            subscriptions.push(`${number} ${state} ${detail}`.trim()),
          onUnrequested: (session, state, detail) => unrequested.push(`${session} ${state}: ${detail}`),
          onExit: markExited,
        },
        forks: false,
        nextSubscription: () => ++subscription,
        signal: new AbortController().signal,
        ...changes,
      };
    },
    script: (next) => writeFile(scriptPath, JSON.stringify(next)),
    async launch(changes = {}) {
      const result = await rig.driver.launch(rig.request(changes), null);
      if (result.kind !== "new") throw new Error(`expected a new session, got ${result.kind}`);
      return result.resident;
    },
    seen: (kind, fits = () => true) =>
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
    of: <K extends Kind>(kind: K) =>
      observations.filter((observation): observation is Seen<K> => observation.kind === kind),
    async calls(what = "") {
      const text = await readFile(join(directory, "calls.ndjson"), "utf8").catch(() => "");
      const all = text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as CallSeen]));
      return all.filter(({ method, path }) => `${method} ${path}`.includes(what));
    },
    async command(body) {
      await fetch(`http://127.0.0.1:${await rig.port()}/stand-in`, {
        method: "POST",
        body: JSON.stringify({ directory: slot.workspace, ...body }),
      });
    },
    store: async () => JSON.parse(await readFile(storePath, "utf8")) as StoredSession[],
    keep: (sessions) => writeFile(storePath, JSON.stringify(sessions)),
    processes: async () => (await listSlot(slot.mark)).length,
    async launchStranger() {
      const path = `/session?directory=${encodeURIComponent(slot.workspace)}`;
      return ((await rig.post(path, {})) as { id: string }).id;
    },
    async post(path, body) {
      const authorization = `Basic ${Buffer.from(`${traits.userName}:${await rig.password()}`).toString("base64")}`;
      const url = `http://127.0.0.1:${await rig.port()}${path}`;
      const answer = await fetch(url, {
        method: "POST",
        headers: { authorization },
        body: JSON.stringify(body),
      });
      return answer.status === 204 ? null : answer.json();
    },
    port: async () => Number(await readFile(join(directory, "port"), "utf8")),
    async password() {
      const [server] = await listSlot(slot.mark);
      const environ = await readFile(`/proc/${server?.pid}/environ`, "utf8");
      return environ.match(/(?:OPENCODE|KILO)_SERVER_PASSWORD=([^\0]+)/)?.[1] ?? "";
    },
  };
  await writeFile(program, await standIn());
  await rig.script(script);
  return rig;
}

export const steps = (...list: Step[]): TurnPlan => ({ steps: list });

/** The rows at once, each on servers of its own: most of their time is waiting. Fails with the names of those that fail. */
export async function together<T extends readonly [string, ...unknown[]]>(
  rows: readonly T[],
  run: (...row: T) => Promise<void>,
): Promise<void> {
  const results = await Promise.allSettled(rows.map((row) => run(...row)));
  const failures = results.flatMap((result, at) =>
    result.status === "rejected"
      ? [new Error(`row "${rows[at]?.[0]}": ${String(result.reason)}`, { cause: result.reason })]
      : [],
  );
  if (failures.length > 0)
    throw new AggregateError(failures, failures.map(({ message }) => message).join("; "));
}

/** A member's turn as the runner does it: gate, submit. */
export async function submit(resident: Resident, text = "hello"): Promise<string> {
  await resident.gate();
  const nativeMessage = resident.nextMessageId();
  const result = await resident.submit({ text, nativeMessage });
  if (result.kind !== "accepted") throw new Error(`the prompt was ${result.kind}: ${result.detail}`);
  return nativeMessage;
}

/** A resident whose first turn of this script has been submitted. */
export async function running(
  script: Script,
  limits: Partial<DriverLimits> = {},
  policy: Partial<MemberPolicy> = {},
): Promise<{ rig: Rig; resident: Resident; message: string }> {
  const rig = await createRig(script, limits);
  const resident = await rig.launch({ launch: { ...LAUNCH, permissions: { ...ALLOW_ALL, ...policy } } });
  const message = await submit(resident);
  return { rig, resident, message };
}

export function locatorOf(resident: Resident, tail: Locator["tail"]): Locator {
  return {
    format: 1,
    cli: "opencode",
    cliVersion: "1.18.33",
    nativeId: resident.nativeId,
    directory: resident.directory,
    container: CONTAINER,
    settledTurns: 1,
    tail,
  };
}

/** The answer as a runner would assemble it from the observations. */
export function textOf(rig: Rig): string {
  const parts = new Map<string, string>();
  for (const observation of rig.observations) {
    if (observation.kind === "withdrawn") parts.delete(observation.part);
    if (observation.kind !== "text") continue;
    parts.set(
      observation.part,
      (parts.get(observation.part) ?? "").slice(0, observation.from) + observation.text,
    );
  }
  return [...parts.values()].join("");
}
