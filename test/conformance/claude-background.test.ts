/** Work behind a turn, where a member allows it: the real CLI, driven without a host around it. On 2.1.220 it is always off. */
import { expect, onTestFinished, test } from "vitest";
import { listSlot } from "../../bridge/census.ts";
import { createRig, partsOf, playOn, type Rig } from "../bridge/drivers/claude/rig.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import { until } from "../support/until.ts";
import { type ClaudeVersion, claudeCommand } from "./suite/claude-subject.ts";

async function open(version: ClaudeVersion): Promise<{ model: ModelServer; rig: Rig }> {
  const model = await startModelServer();
  onTestFinished(() => model.close());
  model.script("SYSTEM NOTIFICATION", ["Noticed."]);
  const rig = await createRig({
    command: claudeCommand(version),
    version,
    launch: { background: true },
    modelUrl: new URL(model.url).origin,
    limits: { firstEventMs: 15_000 },
  });
  return { model, rig };
}

const shell = (command: string, more = {}) => ({ name: "Bash", arguments: { command, ...more } });
const behind = { run_in_background: true };
const agent = {
  name: "Agent",
  arguments: { description: "a test's task", prompt: "The child works.", ...behind },
};

test("facts 1.6: a subagent that works on holds the turn, and what the CLI makes of its end is the turn's own", async () => {
  const { model, rig } = await open("2.1.332");
  model.script("The child works", [{ kind: "reply", text: ["Slow ", "child."], betweenChunksMs: 600 }]);
  model.script("Delegate", [{ kind: "reply", toolCalls: [agent] }, "Gone on."]);
  const resident = await rig.launch();
  const end = await playOn(rig, resident, "Delegate.");
  expect(end).toMatchObject({ status: "completed", tail: { role: "assistant" } });
  expect(partsOf(rig)).toEqual(["Gone on.", "Noticed."]);
  expect(rig.unrequested).toEqual([]);
  await resident.stop();
});

test("facts 1.6: an abort ends a subagent that works on, and the turn with it", async () => {
  const { model, rig } = await open("2.1.332");
  model.script("The child works", [{ kind: "hang" }]);
  model.script("Delegate", [{ kind: "reply", toolCalls: [agent] }, "Gone on."]);
  const resident = await rig.launch();
  await resident.gate();
  await resident.submit({ text: "Delegate.", nativeMessage: resident.nextMessageId() });
  await rig.seen("text");
  expect(await resident.abort()).toBe(true);
  expect(rig.of("native_end")).toHaveLength(1);
  await resident.stop();
});

test("facts 1.6: a background shell is noted and holds nothing; what comes of it is unrequested; a prompt meanwhile waits, and is mixed into nothing", async () => {
  const { model, rig } = await open("2.1.332");
  model.script("Start it", [{ kind: "reply", toolCalls: [shell("sleep 0.6", behind)] }, "Started."]);
  const resident = await rig.launch();
  const end = await playOn(rig, resident, "Start it.");
  expect(end.evidence.map(({ what }) => what)).toContain("background_shell");
  model.reset();
  // A turn of its own with a tool: a text that came in between would be steered into it.
  model.script("SYSTEM NOTIFICATION", [{ kind: "reply", toolCalls: [shell("sleep 1")] }, "Noticed."]);
  await until("its own turn", () => rig.unrequested.length > 0);
  await playOn(rig, resident, "Now my own.");
  expect(partsOf(rig)).toEqual(["OK."]);
  expect(rig.unrequested.map((each) => each.split(" ")[1])).toEqual(["started:", "ended:"]);
  const rows = model.mainRequests().at(-1)?.request?.rows ?? [];
  expect(rows.slice(-2).map(({ role, text }) => `${role} ${text}`)).toEqual([
    "assistant Noticed.",
    "user Now my own.",
  ]);
  await resident.stop();
});

test("facts 1.6: retirement ends a background shell first, so that the CLI ends by itself, and nothing is left", async () => {
  const { model, rig } = await open("2.1.332");
  model.script("Start it", [{ kind: "reply", toolCalls: [shell("sleep 600", behind)] }, "Started."]);
  const resident = await rig.launch();
  await playOn(rig, resident, "Start it.");
  // The shell itself begins a moment behind the CLI's word that it did.
  await until("the shell's command", async () =>
    (await listSlot(rig.slot.mark)).some(({ command }) => command === "sleep"),
  );
  expect(await resident.stop()).toEqual([]);
  expect(rig.exits).toEqual([{ code: 0, signal: null }]);
  expect(await rig.processes()).toBe(0);
});

test("facts 5: below 2.1.269 nothing works on, whatever the member allows and the model asks for", async () => {
  const { model, rig } = await open("2.1.220");
  model.script("The child works", ["Child's end."]);
  model.script("Work behind", [{ kind: "reply", toolCalls: [agent, shell("sleep 0.2", behind)] }, "Done."]);
  const resident = await rig.launch();
  const end = await playOn(rig, resident, "Work behind.");
  expect(end).toMatchObject({ status: "completed" });
  expect(end.evidence.map(({ what }) => what)).toEqual(["result"]);
  expect(partsOf(rig)).toEqual(["Done."]);
  expect((await listSlot(rig.slot.mark)).filter(({ command }) => command === "sleep")).toEqual([]);
  expect(model.mainRequests()[0]?.request?.tools).not.toContain("CronCreate");
  expect(rig.unrequested).toEqual([]);
  await resident.stop();
});
