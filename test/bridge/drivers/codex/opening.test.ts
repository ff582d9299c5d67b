import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CODEX } from "../../../../bridge/drivers/codex/driver.ts";
import type { LaunchResult } from "../../../../bridge/drivers/driver.ts";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import type { Script } from "../../../stand-ins/codex/script.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";
import { until } from "../../../support/until.ts";
import { createRig, type Rig, recordOf, THREAD, TURN } from "./rig.ts";

interface Resumed {
  result: LaunchResult;
  rig: Rig;
}

/** A resume of the saved thread, whose record holds these turns. */
async function resumed(
  script: Script = {},
  { record = recordOf(THREAD, [TURN]), ...changes }: Partial<Locator> & { record?: string | null } = {},
  limits: Partial<DriverLimits> = {},
): Promise<Resumed> {
  const path = join(temporaryDirectory(), "rollout.jsonl");
  if (record !== null) writeFileSync(path, record);
  const rig = await createRig({ thread: { path }, ...script }, limits);
  return { rig, result: await CODEX.launch(rig.request(), rig.locator(changes)) };
}

async function reasonOf(made: Promise<Resumed>): Promise<[kind: string, reason: string]> {
  const { result, rig } = await made;
  if (result.kind !== "not_resumed") throw new Error(`it was ${result.kind}`);
  expect(await rig.processes()).toBe(0);
  expect(rig.read().map(({ method }) => method)).not.toContain("turn/start");
  return [result.resume.kind, result.resume.reason];
}

test("B7: a thread is new under the id that codex gives it, in the slot's directory, with what the policy needs", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(resident).toMatchObject({ nativeId: THREAD, directory: rig.slot.workspace });
  expect(rig.read().map(({ method }) => method)).toEqual([
    "initialize",
    "initialized",
    // Its policy has rules.
    "config/read",
    "thread/start",
  ]);
  expect(rig.read()[0]?.params).toMatchObject({ capabilities: { experimentalApi: true } });
  expect(rig.read()[3]?.params).toMatchObject({
    cwd: rig.slot.workspace,
    sandbox: "danger-full-access",
    model: "m1",
  });
  expect(await resident.stop()).toEqual([]);
});

test("B7, law 8: a saved thread is resumed by its id, and proven by its record, before anything is sent", async () => {
  const { result, rig } = await resumed();
  expect(result).toMatchObject({ kind: "resumed", resume: { kind: "proven" } });
  const asked = rig.read().find(({ method }) => method === "thread/resume")?.params;
  expect(asked).toMatchObject({ threadId: THREAD, excludeTurns: true });
  expect(asked).not.toHaveProperty("cwd");
});

test("a thread whose last turn is not known is resumed by its id and its record alone", async () => {
  expect((await resumed({}, { tail: null })).result.kind).toBe("resumed");
});

const LOST: Array<[what: string, made: () => Promise<Resumed>, reason: string]> = [
  [
    "an unknown id",
    () => resumed({ refuse: { "thread/resume": ["no rollout found for thread id THREAD"] } }),
    "the CLI has no session with the saved id",
  ],
  [
    "an id that is none",
    () => resumed({ refuse: { "thread/resume": ["invalid session id: invalid character"] } }),
    "the CLI has no session with the saved id",
  ],
  [
    "an empty record",
    () => resumed({ refuse: { "thread/resume": ["failed to read thread: rollout at /x is empty"] } }),
    "the CLI has no history for the saved id",
  ],
  [
    "another id",
    () => resumed({ thread: { id: "01a22ce0-0000-7000-8000-00000000000f" } }),
    "the CLI resumed another session",
  ],
  ["another directory", () => resumed({ opened: { cwd: "/elsewhere" } }), "another working directory"],
  [
    "a locator of another directory",
    () => resumed({}, { directory: "/elsewhere" }),
    "another working directory",
  ],
  ["no record", () => resumed({ thread: { path: null } }), "does not say where its history is"],
  ["a record that is gone", () => resumed({}, { record: null }), "the CLI has no history"],
  [
    "a record without the turn",
    () => resumed({}, { record: recordOf(THREAD, []) }),
    "lacks the last settled turn",
  ],
];

test.each(LOST)(
  "law 8, P23: %s is LOST with its reason, nothing is sent, and no process is left",
  async (_, made, reason) => {
    expect(await reasonOf(made())).toEqual(["lost", expect.stringContaining(reason)]);
  },
);

const PASSING: Array<[what: string, made: () => Promise<Resumed>, reason: string]> = [
  [
    "another process that has it open",
    () => resumed({ refuse: { "thread/resume": ["thread THREAD already has an active writer"] } }),
    "active writer",
  ],
  [
    "a fault of its store",
    () => resumed({ refuse: { "thread/resume": ["failed to read thread: permission denied"] } }),
    "permission denied",
  ],
  [
    "P22: a resume without an answer",
    () => resumed({ deafTo: ["thread/resume"] }, {}, { requestMs: 300 }),
    "within",
  ],
  ["a start without an answer", () => resumed({ deafTo: ["initialize"] }, {}, { readyMs: 300 }), "within"],
  ["an answer that names no thread", () => resumed({ opened: { thread: {} } }), "does not say"],
  ["another version", () => resumed({ userAgent: "holdfast/0.172.0 (x)" }), "0.172.0"],
  ["no version", () => resumed({ userAgent: "codex" }), "without a version"],
];

test.each(PASSING)("law 8: %s is an error of its own and never LOST", async (_, made, reason) => {
  expect(await reasonOf(made())).toEqual(["error", expect.stringContaining(reason)]);
});

test("P22: a resume that is cancelled leaves no process, and says that it was cancelled", async () => {
  const rig = await createRig({ deafTo: ["initialize"] });
  const stopping = new AbortController();
  const launch = CODEX.launch(rig.request({ signal: stopping.signal }), rig.locator());
  await until("the process", async () => (await rig.processes()) > 0, 5000);
  stopping.abort();
  expect(await launch).toMatchObject({ kind: "not_resumed", resume: { kind: "error" } });
  expect(await rig.processes()).toBe(0);
});

test("a new thread that codex can't open, or opens elsewhere, is no resident", async () => {
  const scripts: Script[] = [
    { refuse: { "thread/start": ["no room"] } },
    { opened: { cwd: "/elsewhere" } },
    { thread: { id: "" } },
    { opened: { thread: null } },
    { userAgent: "holdfast/0.170.0 (x)" },
  ];
  for (const script of scripts) {
    const rig = await createRig(script);
    await expect(CODEX.launch(rig.request(), null)).rejects.toMatchObject({
      code: expect.stringMatching(/^CLI_(NOT_READY|REFUSED)$/),
    });
    expect(await rig.processes()).toBe(0);
  }
});

test("P29: a codex that ends at once ends its start with that, for a new thread as for a saved one", async () => {
  const rig = await createRig();
  const request = () => rig.request({ command: ["/bin/sh", "-c", "exit 7"] });
  await expect(CODEX.launch(request(), null)).rejects.toMatchObject({ code: "CLI_EXITED" });
  expect(await CODEX.launch(request(), rig.locator())).toMatchObject({
    kind: "not_resumed",
    resume: { kind: "error" },
  });
  await until("the exits", () => rig.told.filter((each) => each === "exit 7").length === 2, 5000);
});

test("what codex prints of the thread's usage while it opens is where the first turn's count begins", async () => {
  const tokens = {
    totalTokens: 110,
    inputTokens: 100,
    cachedInputTokens: 0,
    cacheWriteInputTokens: 0,
    outputTokens: 10,
    reasoningOutputTokens: 0,
  };
  const print = {
    method: "thread/tokenUsage/updated",
    params: { threadId: "THREAD", turnId: "x", tokenUsage: { total: tokens, last: tokens } },
  };
  const { result, rig } = await resumed({ opening: [{ print }] });
  if (result.kind !== "resumed") throw new Error(result.kind);
  const { resident } = result;
  await resident.gate();
  await resident.submit({ text: "Hello.", nativeMessage: resident.nextMessageId() });
  // The plain turn of the stand-in says the same figures again.
  expect((await rig.seen("native_end")).usage).toMatchObject({ source: "cli", inputTokens: null });
});

test("the slot's own home is where codex keeps its threads", async () => {
  const rig = await createRig();
  mkdirSync(join(rig.slot.home, ".codex"));
  const resident = await rig.launch();
  expect(resident.hasExited()).toBe(false);
});
