// Launch, handshake and resume, on the stand-in as a real process. What the real CLI does: test/conformance/claude*.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { CLAUDE_RANGES, createClaudeDriver } from "../../../../bridge/drivers/claude/driver.ts";
import { transcriptPath } from "../../../../bridge/drivers/claude/history.ts";
import { holdsFor } from "../../../../bridge/drivers/version-range.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import { LOCATOR } from "../../../support/samples.ts";
import { within } from "../../../support/until.ts";
import { playOn, type StandInRig, standInRig } from "./rig.ts";

const ID = "11111111-2222-4333-8444-555555555555";
const OTHER = "99999999-2222-4333-8444-555555555555";
const ROWS = [
  { type: "user", uuid: "u1", parentUuid: null },
  { type: "assistant", uuid: "a1", parentUuid: "u1", message: { id: "m1" } },
];

/** A saved conversation of one turn, as far as the slot goes. */
function savedIn(rig: StandInRig, changes: Partial<Locator> = {}): Locator {
  const path = transcriptPath(rig.slot.home, rig.slot.workspace, ID);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, ROWS.map((each) => `${JSON.stringify(each)}\n`).join(""));
  const tail = { role: "assistant", id: "a1" } as const;
  return { ...LOCATOR, cli: "claude", nativeId: ID, directory: rig.slot.workspace, tail, ...changes };
}

test("the manifest says what it can and what it lacks, and what holds for some versions, with the reason", () => {
  expect(createClaudeDriver().manifest).toEqual({
    cli: "claude",
    gate: "answer-on-pipe",
    provesDelivery: false,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: true,
    fork: { when: "with_first_turn", state: "home/.claude/projects", except: [] },
    ranges: CLAUDE_RANGES,
  });
  for (const range of Object.values(CLAUDE_RANGES)) {
    expect(["2.1.197", "2.1.220", "2.1.268"].map((version) => holdsFor(range, version))).toEqual([
      true,
      true,
      true,
    ]);
    expect(["2.1.269", "2.1.332"].map((version) => holdsFor(range, version))).toEqual([false, false]);
    expect(range.reason.length).toBeGreaterThan(20);
  }
});

test("a new session runs under the id that we chose, and the handshake asks nothing of the model", async () => {
  const rig = await standInRig();
  const resident = await rig.launch();
  expect(resident.nativeId).toMatch(/^[0-9a-f-]{36}$/);
  expect(rig.lines().map(({ request }) => (request as { subtype: string }).subtype)).toEqual([
    "initialize",
    "set_permission_mode",
  ]);
  expect(rig.subscriptions).toEqual(["1 live"]);
  const end = await playOn(rig, resident, "Hello?");
  expect(end).toMatchObject({ status: "completed", tail: { role: "assistant" } });
  expect(rig.prompts()).toEqual(["Hello?"]);
  expect(await resident.stop()).toEqual([]);
  expect(rig.exits).toEqual([{ code: 0, signal: null }]);
});

test("A5, law 8: a saved session is resumed when the CLI names it and its history holds the tail, before any prompt", async () => {
  const rig = await standInRig();
  const result = await rig.resume(savedIn(rig));
  expect(result).toMatchObject({ kind: "resumed", resume: { kind: "proven" } });
  expect(rig.prompts()).toEqual([]);
  if (result.kind === "resumed") expect(result.resident.nativeId).toBe(ID);
});

test("P20, B4: a process that names another session than the saved one is LOST, and gets no byte of a prompt", async () => {
  const rig = await standInRig({ session: OTHER });
  const result = await rig.resume(savedIn(rig));
  expect(result).toEqual({
    kind: "not_resumed",
    resume: { kind: "lost", reason: `the CLI names another session: ${OTHER}` },
  });
  expect(rig.prompts()).toEqual([]);
  expect(await rig.processes()).toBe(0);
});

test("P20, B2: a session that another one is named for in the turn is changed, and the locator's owner is told so", async () => {
  const other = { type: "system", subtype: "init", slash_commands: [], session_id: OTHER };
  const rig = await standInRig({
    turns: [[{ begin: true }, { print: other }, { answer: "A." }, { result: {} }]],
  });
  const result = await rig.resume(savedIn(rig));
  if (result.kind !== "resumed") throw new Error(result.kind);
  await playOn(rig, result.resident, "Who are you?");
  expect(await result.resident.verify()).toMatchObject({ kind: "changed", observed: OTHER });
  expect(result.resident.nativeId).toBe(ID);
});

test("B6: what children print under other sessions before, during and behind the root's never counts", async () => {
  const child = (text: string) => ({
    print: {
      type: "assistant",
      uuid: text,
      session_id: OTHER,
      parent_tool_use_id: "toolu_1",
      message: { id: text, model: "m1", content: [{ type: "text", text }] },
    },
  });
  const rig = await standInRig({
    turns: [
      [
        child("before"),
        { begin: true },
        child("during"),
        { answer: "Mine." },
        child("behind"),
        { result: {} },
      ],
    ],
  });
  const resident = await rig.launch();
  await playOn(rig, resident, "Whose is it?");
  expect(await resident.verify()).toMatchObject({ kind: "verified", nativeId: resident.nativeId });
  expect(rig.of("text").map(({ text }) => text)).toEqual(["Mine."]);
});

test("law 8: an id that the CLI does not know is LOST, in its own words", async () => {
  const text = `No conversation found with session ID: ${ID}`;
  const rig = await standInRig({
    start: [
      { stderr: text },
      { result: { subtype: "error_during_execution", is_error: true, num_turns: 0, errors: [text] } },
      { exit: 1 },
    ],
  });
  expect(await rig.resume(savedIn(rig))).toEqual({
    kind: "not_resumed",
    resume: { kind: "lost", reason: "the CLI has no session with the saved id" },
  });
});

test("law 8, A6: without its transcript, its tail, its directory or a proper id a session is LOST; the last two start nothing", async () => {
  const rig = await standInRig();
  const cases: Array<[string, Partial<Locator>]> = [
    ["the history lacks the last settled turn", { tail: { role: "assistant", id: "a9" } }],
    ["belongs to the directory /elsewhere", { directory: "/elsewhere" }],
    ["no session with the saved id", { nativeId: "--help" }],
    ["no session with the saved id", { nativeId: `${ID.slice(0, -3)}xyz` }],
  ];
  for (const [reason, changes] of cases) {
    expect(await rig.resume(savedIn(rig, changes)), reason).toMatchObject({
      kind: "not_resumed",
      resume: { kind: "lost", reason: expect.stringContaining(reason) },
    });
  }
  expect(rig.prompts()).toEqual([]);
  // Only the first one had a process.
  expect(rig.exits).toHaveLength(1);
});

test("P22, law 8: a resume that hangs, is cancelled, or ends by another fault is an error, never LOST, and leaves no process", async () => {
  const hanging = await standInRig({ deafTo: ["initialize"] }, { limits: { readyMs: 700 } });
  expect(await hanging.resume(savedIn(hanging))).toMatchObject({
    kind: "not_resumed",
    resume: { kind: "error", reason: expect.stringContaining("700 ms") },
  });
  const stopped = await standInRig({ deafTo: ["initialize"] });
  const controller = new AbortController();
  const cancelled = stopped.resume(savedIn(stopped), { signal: controller.signal });
  setTimeout(() => controller.abort(), 300);
  expect(await within("the cancelled resume", cancelled)).toMatchObject({ resume: { kind: "error" } });
  const dying = await standInRig({ start: [{ stderr: "no space left on device" }, { exit: 7 }] });
  expect(await dying.resume(savedIn(dying))).toMatchObject({
    resume: { kind: "error", reason: expect.stringContaining("code 7") },
  });
  for (const rig of [hanging, stopped, dying]) expect(await rig.processes()).toBe(0);
});

test("a CLI that refuses the handshake, or names no session, is not ready, and is ended", async () => {
  const refusing = await standInRig({ refuses: ["set_permission_mode"] });
  await expect(refusing.launch()).rejects.toMatchObject({ code: "CLI_REFUSED" });
  const silent = await standInRig({ deafTo: ["set_permission_mode"] }, { limits: { requestMs: 400 } });
  await expect(silent.launch()).rejects.toMatchObject({ code: "CLI_REFUSED" });
  const wrong = await standInRig({ session: OTHER });
  await expect(wrong.launch()).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  for (const rig of [refusing, silent, wrong]) expect(await rig.processes()).toBe(0);
});

test("background work is off below 2.1.269 whatever the member allows, and on where it allows it from there on", async () => {
  const seen: Record<string, string[]> = {};
  for (const version of ["2.1.220", "2.1.332"]) {
    const rig = await standInRig({}, { version, launch: { background: true } });
    const resident = await rig.launch();
    const { listSlot } = await import("../../../../bridge/census.ts");
    const [found] = await listSlot(rig.slot.mark);
    const { readFileSync } = await import("node:fs");
    seen[version] = readFileSync(`/proc/${found?.pid}/environ`, "utf8").split("\0");
    await resident.stop();
  }
  expect(seen["2.1.220"]).toContain("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1");
  expect(seen["2.1.332"]).not.toContain("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1");
});

test("laws 3, 11: whether a lost message was stored is not known", async () => {
  const rig = await standInRig();
  expect(await rig.driver.proveDelivery(rig.request(), ID, "m")).toBe("unclear");
});

test("a fork is a copy with the last settled turn in it: no process, no session, and lost without that turn", async () => {
  const rig = await standInRig();
  const locator = savedIn(rig);
  const driver = createClaudeDriver();
  expect(await driver.fork(rig.request(), locator)).toBeNull();
  const later = { ...locator, tail: { role: "assistant", id: "a9" } as const };
  await expect(driver.fork(rig.request(), later)).rejects.toMatchObject({ code: "CONTEXT_LOST" });
});
