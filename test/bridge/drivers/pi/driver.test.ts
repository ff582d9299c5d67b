import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PI } from "../../../../bridge/drivers/pi/driver.ts";
import { createRig, SESSION, submit } from "./rig.ts";

test("the manifest says what pi can, and what it lacks", () => {
  expect(PI.manifest).toEqual({
    cli: "pi",
    gate: "answer-on-pipe",
    provesDelivery: false,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: false,
    fork: { when: "at_once", state: "home/.pi/agent/sessions", except: [] },
    ranges: {},
  });
});

test("a new session is opened, takes a turn, and its end leaves no process", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(resident).toMatchObject({ nativeId: SESSION, directory: rig.slot.workspace, processGeneration: 1 });
  expect(resident.subscription()).toBe(1);
  expect(resident.mustRetire()).toBeNull();
  await resident.gate();
  expect(await submit(resident)).toEqual({ kind: "accepted" });
  await rig.seen("native_end");
  resident.endTurn();
  expect(await resident.stop()).toEqual([]);
  expect(await rig.processes()).toBe(0);
  expect(rig.told).toEqual(["1 live", "1 closed the CLI ended (code 0, signal null)", "exit 0"]);
});

const LOADED = {
  entries: [
    ["u1", null, "user"],
    ["a2", "u1", "assistant"],
  ] as Array<[string, string | null, string]>,
};

test("a saved session is resumed and proven", async () => {
  const rig = await createRig(LOADED);
  const result = await PI.launch(rig.request(), rig.locator());
  expect(result).toMatchObject({ kind: "resumed", resume: { kind: "proven" } });
  if (result.kind !== "resumed") return;
  expect(result.resident.nativeId).toBe(SESSION);
  expect(await result.resident.stop()).toEqual([]);
});

test("what can't be proven is lost with its reason, and no process is left", async () => {
  const rig = await createRig();
  rig.script({ ...LOADED, state: { messageCount: 0 } });
  expect(await PI.launch(rig.request(), rig.locator())).toEqual({
    kind: "not_resumed",
    resume: { kind: "lost", reason: "the history that the CLI loaded is blank" },
  });
  expect(await rig.processes()).toBe(0);
});

test("P21: a session of another folder is lost without a start: pi would offer a copy", async () => {
  const rig = await createRig(LOADED);
  const directory = join(rig.slot.root, "elsewhere");
  mkdirSync(directory);
  expect(await PI.launch(rig.request(), rig.locator({ directory }))).toEqual({
    kind: "not_resumed",
    resume: { kind: "lost", reason: "the session belongs to another working directory" },
  });
  expect(rig.told).toEqual([]);
});

test("an id that pi would take for a path or an option is lost without a start", async () => {
  const rig = await createRig(LOADED);
  for (const nativeId of ["/tmp/none.jsonl", "--fork"]) {
    expect(await PI.launch(rig.request(), rig.locator({ nativeId }))).toEqual({
      kind: "not_resumed",
      resume: { kind: "lost", reason: "the saved id is none of pi's" },
    });
  }
  expect(rig.told).toEqual([]);
});

test("P22: a resume that hangs is a timeout and not lost, and the next one finds the session", async () => {
  const rig = await createRig({ ...LOADED, start: [{ deafTo: "get_state" }] }, { readyMs: 700 });
  const result = await PI.launch(rig.request(), rig.locator());
  expect(result).toMatchObject({
    kind: "not_resumed",
    resume: { kind: "error", reason: expect.stringContaining("no result within 700 ms") },
  });
  expect(await rig.processes()).toBe(0);
  rig.script(LOADED);
  const again = await PI.launch(rig.request({ limits: rig.request().limits }), rig.locator());
  expect(again.kind).toBe("resumed");
  if (again.kind === "resumed") await again.resident.stop();
});

test("P22: a resume that is cancelled ends its process, and says nothing of the session", async () => {
  const rig = await createRig({ ...LOADED, start: [{ deafTo: "get_state" }] });
  const cancel = new AbortController();
  const launching = PI.launch(rig.request({ signal: cancel.signal }), rig.locator());
  await expect.poll(() => rig.processes(), { timeout: 5000 }).toBe(1);
  cancel.abort();
  expect(await launching).toMatchObject({ kind: "not_resumed", resume: { kind: "error" } });
  expect(await rig.processes()).toBe(0);
});

test("a fault at the start of a new session is thrown, and leaves no process", async () => {
  const rig = await createRig({ hello: null });
  await expect(rig.launch()).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect(await rig.processes()).toBe(0);
});

test("nobody can say whether a message was stored", async () => {
  const rig = await createRig();
  expect(await PI.proveDelivery(rig.request(), SESSION, "1")).toBe("unclear");
});
