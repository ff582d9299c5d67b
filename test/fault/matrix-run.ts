/**
 * Plays one cell of the crash matrix on real containers: brings the turn into its state, strikes, lets go, waits for the
 * one outcome, judges it, and takes another turn, which must go on with the conversation.
 */
import { readdirSync } from "node:fs";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { DriverSubject } from "../conformance/suite/subject.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import type { PrivateEngine } from "../support/private-engine.ts";
import { play, userTexts } from "../support/turns.ts";
import { until, within } from "../support/until.ts";
import { withChild } from "./child.ts";
import { judge } from "./judge.ts";
import { exits, type Held, HOLDS } from "./matrix-states.ts";
import type { Cell } from "./matrix-table.ts";
import { isBridge, type Place, type PlaceProcess, placeOf } from "./place.ts";

const END_MS = 90_000;

export interface Played {
  outcome: string;
  settled: boolean;
  code: string;
  retries: number;
  /** Context status of the turn after it. */
  next: string;
  tookMs: number;
}

export interface Stage {
  t: TestHost;
  subject: DriverSubject;
  engine: PrivateEngine | null;
  engineSocketPath: string;
  door: Held["door"];
  member: string | null;
  cells: number;
}

/** A host whose sandboxes live in the given engine. Each wait of the bridge is long: frozen processes are not faults here. */
export async function openStage(options: {
  subject: DriverSubject;
  engine: PrivateEngine | null;
  engineSocketPath: string;
  atEnd: (end: () => Promise<void>) => void;
}): Promise<Stage> {
  let door = Promise.withResolvers<void>();
  door.resolve();
  const behindDoor = (driver: SandboxDriver): SandboxDriver => ({
    ...driver,
    async pinned() {
      await door.promise;
      return driver.pinned();
    },
  });
  const t = await startTestHost({
    limits: { canaryMs: 30_000, requestMs: 30_000 },
    engineSocketPath: options.engineSocketPath,
    ...(options.engine === null ? {} : { distDirectory: options.engine.distDirectory }),
    around: (drivers) => drivers.map(behindDoor),
    atEnd: options.atEnd,
  });
  return {
    t,
    subject: options.subject,
    engine: options.engine,
    engineSocketPath: options.engineSocketPath,
    door: {
      close() {
        door = Promise.withResolvers<void>();
      },
      open: () => door.resolve(),
    },
    member: null,
    cells: 0,
  };
}

/** Throws with everything that is wrong. A stage on which a cell failed goes on with a sandbox of its own. */
export async function playCell(stage: Stage, cell: Cell): Promise<Played> {
  const startedMs = performance.now();
  const member = await memberOf(stage);
  stage.member = null;
  stage.cells += 1;
  const { t, subject } = stage;
  const place = placeFor(stage, member);
  const isCli = (process: PlaceProcess) => process.uid !== 0 && process.command.includes(subject.processText);
  const mark = `${stage.cells}`;
  const text = `${cell.state} and ${cell.victim}, number ${mark}.`;
  const held: Held = { t, subject, place, isCli, mark, text, door: stage.door };
  const hold = HOLDS[cell.state];
  t.model.reset();
  t.model.script(text, hold.steps(held));
  const { locator, settled_turns: settledTurns } = t.host.member(member);

  await hold.before?.(held);
  const turn = await strike(stage, cell, held, member);
  await hold.release?.(held, turn);
  const settlement = await endOf(t, turn);
  const events = t.host.store.eventsOf(turn).map(({ event }) => event);
  const told = { text, before: { locator, settledTurns }, events, whole: hold.whole };
  const { violations, retries } = judge({
    ...told,
    member: t.host.member(member),
    turn: t.host.turn(turn),
    requests: t.model.mainRequests(),
  });
  if (!cell.outcomes.includes(settlement.outcome))
    violations.push(`${settlement.outcome} is not among ${cell.outcomes.join(", ")}`);

  if (settlement.outcome === "unknown") t.host.recordInspection(turn, "looked at by the matrix");
  const containerId = t.host.store.sandbox(t.host.member(member).sandbox)?.container?.containerId;
  // An engine that comes back with its containers has ended nothing: the same process, in the same container.
  const isUnharmed = cell.victim === "engine";
  const next = await nextTurn(stage, { member, isCli, text, mark, place, settlement });
  violations.push(...next.violations);
  if (isUnharmed && (next.context !== "LIVE" || containerId !== place.containerId))
    violations.push(`behind an engine that came back: ${next.context}, in ${containerId}`);
  if (JSON.stringify(t.host.turn(turn).settlement) !== JSON.stringify(settlement))
    violations.push("the outcome changed afterwards");
  violations.push(...(await leftBehind(stage, member, place, isCli)));
  if (violations.length > 0) {
    throw new Error(
      `${violations.join("\n")}\nsettlement: ${JSON.stringify(settlement)}\nevents: ${events.map(({ type }) => type).join(" ")}`,
    );
  }
  stage.member = member;
  return {
    outcome: settlement.outcome,
    settled: settlement.settled,
    code: settlement.error?.code ?? "",
    retries,
    next: next.context,
    tookMs: Math.round(performance.now() - startedMs),
  };
}

/** A member that has a settled turn and a resident process. */
async function memberOf(stage: Stage): Promise<string> {
  if (stage.member !== null) return stage.member;
  const { t, subject } = stage;
  stage.door.open();
  const sandbox = t.host.createSandbox({ kind: "docker" }).id;
  const asks = { tool: subject.tools.shell("").name, pattern: "echo asked-*", action: "ask" as const };
  const { cli } = subject.manifest;
  const permissions = { ...ALLOW_ALL, rules: [asks] };
  const member = t.host.createMember({ sandbox, cli, ...MEMBER, ...subject.member, permissions }).id;
  t.model.reset();
  const { settlement } = await play(t, member, "The code word is limpet.");
  if (settlement.outcome !== "completed") throw new Error(`no first turn: ${JSON.stringify(settlement)}`);
  return member;
}

function placeFor({ t, engineSocketPath }: Stage, member: string): Place {
  const { sandbox } = t.host.member(member);
  return placeOf(engineSocketPath, t.host.store.sandbox(sandbox)?.container?.containerId ?? "");
}

/** Submits the turn, waits until it is in its state, and strikes. Returns the turn's id. */
async function strike(stage: Stage, cell: Cell, held: Held, member: string): Promise<string> {
  const { t, text, place } = held;
  const { reached } = HOLDS[cell.state];
  if (cell.victim === "controller") {
    let turn = "";
    await withChild(t, { member, text, diesBeforeSending: cell.state === "unsent" }, async (child) => {
      ({ turn } = await child.line("submitted"));
      if (cell.state === "unsent") await child.gone();
      else await reached(held, turn);
      await child.kill();
      // Nobody of ours is behind it: the next controller's own sending.
      stage.door.open();
    });
    return turn;
  }
  const { id: turn } = t.host.submit(member, text);
  await reached(held, turn);
  switch (cell.victim) {
    case "bridge":
      process.kill(present(place.find(isBridge)).pid, "SIGKILL");
      break;
    case "cli": {
      const before = exits(held);
      process.kill((await until("the CLI's process", () => place.find(held.isCli))).pid, "SIGKILL");
      // With its turn over, only the next one would meet the news.
      if (cell.state === "settled") await until("the bridge's news of it", () => exits(held) > before);
      break;
    }
    case "container":
      await place.kill();
      break;
    case "engine":
    case "engine, bare":
      await present(stage.engine).kill();
      await present(stage.engine).start({ liveRestore: cell.victim === "engine" });
      break;
    default: {
      const never: never = cell.victim;
      throw new TypeError(`victim ${String(never)} is not handled`);
    }
  }
  return turn;
}

/** The settlement as the running host tells it, or as it stands in the store already. */
async function endOf(t: TestHost, turn: string): Promise<Settlement> {
  const running = t.host.running(turn);
  if (running !== null) await within(`the end of ${turn}`, running.settlement, END_MS);
  return present(t.host.turn(turn).settlement);
}

async function nextTurn(
  { t }: Stage,
  of: {
    member: string;
    isCli: Held["isCli"];
    text: string;
    mark: string;
    place: Place;
    settlement: Settlement;
  },
): Promise<{ violations: string[]; context: string }> {
  const { isCli, place, text, settlement } = of;
  const violations: string[] = [];
  const before = place.find(isCli)?.pid ?? null;
  t.model.reset();
  const { settlement: next } = await play(t, of.member, `What is the code word, after ${of.mark}?`);
  const after = place.find(isCli)?.pid ?? null;
  const isSame = before !== null && before === after;
  // The status must agree with the processes themselves, as the host's kernel lists them.
  if (next.context !== (isSame ? "LIVE" : "RESTORED"))
    violations.push(
      `the next turn says ${next.context}, the process is ${isSame ? "the same" : "another one"}`,
    );
  if (settlement.outcome === "unknown" && next.context !== "RESTORED")
    violations.push(`after an unknown turn: ${next.context}`);
  if (next.outcome !== "completed" || next.parts.join("") !== "The code word is limpet.")
    violations.push(
      `the next turn: ${next.outcome} ${JSON.stringify(next.error)} ${JSON.stringify(next.parts)}`,
    );
  const times = Math.max(
    0,
    ...t.model.mainRequests().map((request) => userTexts(request).filter((each) => each === text).length),
  );
  const isUnsent = settlement.outcome === "not_sent" || settlement.outcome === "refused";
  if (times > 1 || (isUnsent && times > 0)) violations.push(`the next request has the text ${times} times`);
  return { violations, context: next.context ?? "none" };
}

async function leftBehind(
  { t }: Stage,
  member: string,
  place: Place,
  isCli: Held["isCli"],
): Promise<string[]> {
  const violations: string[] = [];
  const { sandbox } = t.host.member(member);
  const row = present(t.host.store.sandbox(sandbox));
  const processes = place.processes();
  const strange = processes.filter((each) => each.uid !== 0 && !isCli(each));
  if (strange.length > 0) violations.push(`left: ${strange.map(({ command }) => command).join("; ")}`);
  const clis = processes.filter(isCli).length;
  const own = processes.filter(({ uid }) => uid === 0).length;
  if (clis !== 1 || own !== 2) violations.push(`${clis} CLIs and ${own} processes of the bridge's`);
  const state = place.list("/var/lib/holdfast").join(" ");
  if (state !== "journal") violations.push(`the bridge's state has ${state}`);
  const shared = readdirSync(row.directory).toSorted().join(" ");
  if (shared !== "bridge.json ctl.sock model.sock token")
    violations.push(`the sandbox's folder has ${shared}`);
  const driver = t.setup.drivers.find(({ kind }) => kind === "docker");
  const places =
    (await driver?.list(t.host.store.id))?.filter(({ sandboxId }) => sandboxId === sandbox) ?? [];
  if (places.length !== 1) violations.push(`${places.length} containers`);
  return violations;
}

function present<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("what the cell needs is not there");
  return value;
}
