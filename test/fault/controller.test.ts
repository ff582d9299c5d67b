/** The controller's process dies hard or freezes: what it admitted reaches the CLI at most once, and settles once. */
import type { ChildProcess } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import type { SandboxKind } from "../../controller/store/records.ts";
import { nativeServer } from "../conformance/suite/native.ts";
import { OPENCODE_SUBJECT } from "../conformance/suite/served.ts";
import { putFiles } from "../container/engine.ts";
import { createMember, MODEL_KEY, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until, within } from "../support/until.ts";
import { withChild } from "./child.ts";

const WAITS = "until [ -e go ]; do sleep 0.05; done";
const waiting = { name: "bash", arguments: { command: WAITS, description: "waits for the test" } };

interface Scene {
  t: TestHost;
  sandbox: string;
  member: string;
  directory: string;
  /** Null for a process: its workspace is a folder here. */
  container: string | null;
  /** The member's settled turns before the test. */
  settledTurns: number;
}

let shared: TestHost;
let end: () => Promise<void> = async () => undefined;
/** A free member a kind of sandbox, for as long as its turns end well. */
const members = new Map<SandboxKind, string>();

beforeAll(async () => {
  shared = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
});
afterAll(() => end());
beforeEach(() => tellOnFailure(shared));

/** A LIVE member that was told the code word. */
async function scene(kind: SandboxKind): Promise<Scene> {
  const t = shared;
  const known = members.get(kind);
  const last = known === undefined ? undefined : t.host.store.turnsOf(known, 1)[0];
  const isWell = known !== undefined && last?.settlement?.outcome === "completed";
  const member = isWell ? known : createMember(t.host, kind).member;
  members.set(kind, member);
  t.model.reset();
  if (!isWell) await play(t, member, "The code word is abalone.");
  t.model.reset();
  const { sandbox, settled_turns: settledTurns } = t.host.member(member);
  const { directory = "", container = null } = t.host.store.sandbox(sandbox) ?? {};
  rmSync(`${directory}/workspace/go`, { force: true });
  const containerId = kind === "docker" ? (container?.containerId ?? "") : null;
  return { t, sandbox, member, directory, container: containerId, settledTurns };
}

async function letGo({ container, directory }: Scene): Promise<void> {
  if (container === null) writeFileSync(`${directory}/workspace/go`, "");
  else {
    const entry = { kind: "bytes" as const, path: "workspace/go", mode: 0o644, bytes: Buffer.alloc(0) };
    await putFiles(container, [entry]);
  }
}

/** The settlement as the running host tells it, or as it stands in the store already. */
async function endOf(t: TestHost, turn: string) {
  const running = t.host.running(turn);
  if (running !== null) await within(`the end of ${turn}`, running.settlement, 60_000);
  return t.host.turn(turn).settlement;
}

/** Law 3 and law 10 over everything that was recorded of the turn. */
function expectOnce({ t, member, settledTurns }: Scene, turn: string, text: string): void {
  const types = t.host.store.eventsOf(turn).map(({ event }) => event.type);
  for (const type of ["turn.accepted", "turn.context", "turn.gated", "turn.submitting", "turn.delivered"])
    expect(types.filter((each) => each === type)).toEqual([type]);
  for (const request of t.model.mainRequests()) {
    expect(userTexts(request).filter((each) => each === text)).toEqual([text]);
  }
  const { settlement, number } = t.host.turn(turn);
  expect(t.host.member(member)).toMatchObject({
    settled_turns: settledTurns + 1,
    submissions: number,
    pending_locator: null,
    locator: {
      settledTurns: settledTurns + 1,
      nativeId: settlement?.session?.nativeId,
      tail: settlement?.session?.tail,
    },
  });
  const history = t.host.store.locatorHistory(member).map((locator) => locator.settledTurns);
  expect(history).toEqual(Array.from({ length: settledTurns + 1 }, (_, at) => at + 1));
}

test("law 3: the controller killed after admission and before sending leaves a turn that was never sent, and never will be", async () => {
  const s = await scene("process");
  const { t, member } = s;
  let turn = "";
  await withChild(t, { member, text: "Never sent.", diesBeforeSending: true }, async (child) => {
    ({ turn } = await child.line("submitted"));
    expect(await child.gone()).toBe("SIGKILL");
    expect(stateOf(t.directory, turn)).toBe("admitted");
  });
  const settlement = await endOf(t, turn);
  expect(settlement).toMatchObject({ outcome: "not_sent", settled: false, error: { code: "BRIDGE_GONE" } });
  expect(settlement?.evidence.map(({ what }) => what)).toEqual(["never_received"]);
  expect(readFileSync(`${s.directory}/state/journal`, "utf8")).toContain(
    `{"type":"turn.vetoed","member":"${member}","turn":"${turn}"}`,
  );
  expect(t.model.requests()).toEqual([]);
  const next = await play(t, member, "What is the code word?");
  expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is abalone."] });
  expect(userTexts(t.model.mainRequests()[0])).not.toContain("Never sent.");
});

for (const kind of ["process", "docker"] as const) {
  test(`laws 3, 10: the controller killed during a turn in a ${kind} sandbox; the next one sees it settle, once`, async () => {
    const s = await scene(kind);
    const { t, member } = s;
    t.model.script("Wait for it", [{ kind: "reply", text: "Waiting. ", toolCalls: [waiting] }, "It came."]);
    let turn = "";
    await withChild(t, { member, text: "Wait for it." }, async (child) => {
      ({ turn } = await child.line("submitted"));
      await until("the tool", () => eventsOf(t.directory, turn).includes("turn.tool"), 30_000);
    });
    expect(t.host.turn(turn).ended_at).toBeNull();
    await letGo(s);
    const settlement = await endOf(t, turn);
    expect(settlement).toMatchObject({
      outcome: "completed",
      settled: true,
      context: "LIVE",
      parts: ["Waiting. ", "It came."],
    });
    expect(t.model.mainRequests().map(({ answer }) => answer?.round)).toEqual([0, 1]);
    expectOnce(s, turn, "Wait for it.");
  });
}

test("laws 3, 10: the controller killed under the model's answer; the CLI asks again by itself, the turn settles once", async () => {
  const s = await scene("process");
  const { t, member } = s;
  t.model.script("Answer at", [{ kind: "neverEnd", text: "half and " }]);
  let turn = "";
  await withChild(t, { member, text: "Answer at length." }, async (child) => {
    ({ turn } = await child.line("submitted"));
    await t.model.waitForRequest(() => true, 30_000);
    await until("delivery", () => stateOf(t.directory, turn) === "delivered", 30_000);
    t.model.script("Answer at", ["unused"]);
  });
  const [first] = t.model.mainRequests();
  expect(first?.ending).toBe("gone");
  t.model.reset();
  t.model.script("Answer at", ["The whole answer."]);
  expect(await endOf(t, turn)).toMatchObject({
    outcome: "completed",
    settled: true,
    parts: ["The whole answer."],
  });
  expect(t.host.store.eventsOf(turn).map(({ event }) => event.type)).toContain("turn.waiting");
  expectOnce(s, turn, "Answer at length.");
});

test("laws 6, 7, 10; B1: the controller killed after the native end and before it took effect applies it once when it is back", async () => {
  const s = await scene("process");
  const { t, member, directory } = s;
  t.model.script("End unseen", [{ kind: "reply", toolCalls: [waiting] }, "Ended."]);
  let turn = "";
  await withChild(t, { member, text: "End unseen." }, async (child) => {
    ({ turn } = await child.line("submitted"));
    await until("the tool", () => eventsOf(t.directory, turn).includes("turn.tool"), 30_000);
    // The step that applies the end can't be done: each try ends like the one in which a controller dies.
    sql(
      t.directory,
      "CREATE TRIGGER stuck BEFORE UPDATE OF ended_at ON turns BEGIN SELECT RAISE(ABORT, 'stuck'); END",
    );
    writeFileSync(`${directory}/workspace/go`, "");
    const ended = `{"type":"turn.ended","member":"${member}","turn":"${turn}"`;
    await until(
      "the end in the journal",
      () => readFileSync(`${directory}/state/journal`, "utf8").includes(ended),
      30_000,
    );
    expect(stateOf(t.directory, turn)).toBe("delivered");
    await child.kill();
    sql(t.directory, "DROP TRIGGER stuck");
    expect(stateOf(t.directory, turn)).toBe("delivered");
  });
  expect(await endOf(t, turn)).toMatchObject({ outcome: "completed", settled: true, parts: ["Ended."] });
  expect(t.model.mainRequests().map(({ answer }) => answer?.round)).toEqual([0, 1]);
  expectOnce(s, turn, "End unseen.");
  const next = await play(t, member, "What is the code word?");
  expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is abalone."] });
});

test("P24, laws 6, 10: the controller killed in a turn that ends natively before the next one is there: told once, one session, nothing runs on", async () => {
  const s = await scene("process");
  const { t, sandbox, member, directory } = s;
  t.model.script("Work on", [{ kind: "reply", text: "Working. ", toolCalls: [waiting] }, "Never asked for."]);
  let turn = "";
  await withChild(t, { member, text: "Work on.", limitMs: 8000 }, async (child) => {
    ({ turn } = await child.line("submitted"));
    await until("the tool", () => eventsOf(t.directory, turn).includes("turn.tool"), 30_000);
    await child.kill();
    const ended = `{"type":"turn.ended","member":"${member}","turn":"${turn}"`;
    const journal = () => readFileSync(`${directory}/state/journal`, "utf8");
    await until("the end in the journal", () => journal().includes(ended), 30_000);
    expect(stateOf(t.directory, turn)).toBe("delivered");
  });
  expect(await endOf(t, turn)).toMatchObject({
    outcome: "failed",
    settled: true,
    error: { code: "TURN_TIME_LIMIT" },
    parts: ["Working. "],
  });
  expectOnce(s, turn, "Work on.");
  expect(t.host.running(turn)).toBeNull();
  expect(t.host.openRequests(member)).toEqual([]);
  const native = await nativeServer(OPENCODE_SUBJECT, {
    sandbox,
    member,
    workspace: `${directory}/workspace`,
  });
  const sessions = await native.ask<Array<{ id: string }>>("GET", "/session");
  expect(sessions.map(({ id }) => id)).toEqual([t.host.member(member).locator?.nativeId]);
  const next = await play(t, member, "What is the code word?");
  expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is abalone."] });
});

test("laws 10, 12, 13: a controller frozen beyond the link's limit still owns its store, and thawed it has every text whole, once", async () => {
  const s = await scene("process");
  const { t, member, directory } = s;
  const chunks = Array.from({ length: 40 }, (_, at) => `chunk ${at} 🦑, `);
  t.model.script("Talk slowly", [{ kind: "reply", text: chunks, betweenChunksMs: 25 }]);
  let turn = "";
  await withChild(t, { member, text: "Talk slowly." }, async (child) => {
    ({ turn } = await child.line("submitted"));
    await t.model.waitForRequest(() => true, 30_000);
    const before = linksClosed(directory);
    child.process.kill("SIGSTOP");
    // Two missed pings: the bridge has given the link up.
    await until("the bridge's end of the link", () => linksClosed(directory) > before, 30_000);
    await expect(
      openHost({
        directory: t.directory,
        drivers: [],
        relay: { routes: everyProtocol({ baseUrl: t.model.url, key: MODEL_KEY }) },
      }),
    ).rejects.toMatchObject({ code: "STORE_OWNED" });
    child.process.kill("SIGCONT");
    const { settlement, seen } = await child.line("settled");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: [chunks.join("")] });
    expect(seen).toBe(chunks.join(""));
  });
  expect(t.host.turn(turn).settlement).toMatchObject({ outcome: "completed", parts: [chunks.join("")] });
  expect(t.model.mainRequests()).toHaveLength(1);
  expectOnce(s, turn, "Talk slowly.");
});

for (const kind of ["process", "docker"] as const) {
  test(`P48, law 12: a frozen controller of a ${kind} sandbox is taken over when somebody says so; thawed it notices, and writes and sends nothing`, async () => {
    const s = await scene(kind);
    const { t, member } = s;
    t.model.script("Wait for the thaw", [
      { kind: "reply", text: "Waiting. ", toolCalls: [waiting] },
      "It came.",
    ]);
    let turn = "";
    await withChild(t, { member, text: "Wait for the thaw." }, async (child) => {
      ({ turn } = await child.line("submitted"));
      await until("the tool", () => eventsOf(t.directory, turn).includes("turn.tool"), 30_000);
      await freezeBetweenWrites(child.process, t.directory);
      const options = {
        directory: t.directory,
        drivers: t.setup.drivers,
        relay: { routes: everyProtocol({ baseUrl: t.model.url, key: MODEL_KEY }) },
      };
      await expect(openHost(options)).rejects.toMatchObject({ code: "STORE_OWNED" });
      const next = await openHost({ ...options, takeOver: true });
      try {
        const handle = next.running(turn);
        expect(handle).not.toBeNull();
        child.process.kill("SIGCONT");
        expect(await child.line("failed")).toMatchObject({ code: "FENCED" });
        await letGo(s);
        expect(await within("the end", handle?.settlement ?? Promise.reject(), 60_000)).toMatchObject({
          outcome: "completed",
          parts: ["Waiting. ", "It came."],
        });
        // The old one is still there, and still refused: its successor's lock holds.
        expect(child.process.exitCode).toBeNull();
        await expect(openHost(options)).rejects.toMatchObject({ code: "STORE_OWNED" });
      } finally {
        await next.close();
      }
    });
    expect(t.model.mainRequests().map(({ answer }) => answer?.round)).toEqual([0, 1]);
    expectOnce(s, turn, "Wait for the thaw.");
  });
}

test("law 12: a controller whose fence was passed by another writes nothing and sends nothing", async () => {
  const { t, member } = await scene("process");
  sql(t.directory, "UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE name = 'fence'");
  expect(() => t.host.submit(member, "From a stale owner.")).toThrow(
    expect.objectContaining({ code: "FENCED" }),
  );
  expect(t.model.requests()).toEqual([]);
  await t.reopen();
  const next = follow(t.host.submit(member, "What is the code word?"));
  expect(await next.end()).toMatchObject({ context: "LIVE", parts: ["The code word is abalone."] });
});

/** One that froze in the middle of a write holds the store: nobody can take it over then, which is not what is tried here. */
async function freezeBetweenWrites(controller: ChildProcess, directory: string): Promise<void> {
  await until("a controller that froze between two writes", () => {
    controller.kill("SIGSTOP");
    if (isWritable(directory)) return true;
    controller.kill("SIGCONT");
    return false;
  });
}

function isWritable(directory: string): boolean {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { timeout: 100 });
  try {
    database.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch (error) {
    if (error instanceof Error && error.message.includes("locked")) return false;
    throw error;
  } finally {
    database.close();
  }
}

function linksClosed(directory: string): number {
  return readFileSync(`${directory}/bridge.log`, "utf8").split('"what":"link closed"').length - 1;
}

/** The record's state, read past whoever owns the store. */
function stateOf(directory: string, turn: string): string {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { readOnly: true, timeout: 5000 });
  const row = database.prepare("SELECT state FROM turns WHERE id = ?").get(turn);
  database.close();
  return String(row?.state);
}

/** The types of the turn's events that have taken effect. */
function eventsOf(directory: string, turn: string): string[] {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { readOnly: true, timeout: 5000 });
  const rows = database.prepare("SELECT event FROM turn_events WHERE turn = ?").all(turn);
  database.close();
  return rows.map(({ event }) => (JSON.parse(String(event)) as { type: string }).type);
}

function sql(directory: string, statement: string): void {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { timeout: 5000 });
  database.exec(statement);
  database.close();
}
