import { expect, test } from "vitest";
import { openChannel, type PiChannel } from "../../../../bridge/drivers/pi/channel.ts";
import { type Response, readNative, type UiRequest } from "../../../../bridge/drivers/pi/native-message.ts";
import { type Pipe, startPipe } from "../../../../bridge/drivers/stdio/resident.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import type { Script } from "../../../stand-ins/pi/script.ts";
import { createRig, type Rig } from "./rig.ts";

/** A channel on the stand-in, without the driver around it. */
async function bench(script: Script = {}): Promise<{ rig: Rig; pipe: Pipe; channel: PiChannel }> {
  const rig = await createRig(script, { requestMs: 500 });
  const setup = { model: { name: "m1" } };
  const pipe = await startPipe(rig.request(), {
    args: [],
    environment: { PATH: "/usr/bin:/bin", HOLDFAST_PI_SETUP: JSON.stringify(setup) },
    ownKey: "type",
  });
  const channel = openChannel(pipe);
  pipe.listen({
    onMessage(raw) {
      const message = readNative(raw);
      if (message?.type === "response") channel.takeAnswer(message as Response);
      if (message?.type === "extension_ui_request") channel.takeIdle(message as UiRequest);
    },
    onLost: channel.fail,
  });
  return { rig, pipe, channel };
}

test("a command gets its answer, refused ones too; state and records are read", async () => {
  const { channel, pipe } = await bench({
    entries: [
      ["u1", null, "user"],
      ["a2", "u1", "assistant"],
    ],
  });
  expect(await channel.call({ type: "abort" })).toMatchObject({ command: "abort", success: true });
  expect(await channel.state()).toMatchObject({ messageCount: 2, isStreaming: false });
  expect(await channel.entriesBehind(null)).toMatchObject({ leafId: "a2", entries: [{ id: "u1" }, {}] });
  expect(await channel.entriesBehind("u1")).toMatchObject({ leafId: "a2", entries: [{ id: "a2" }] });
  expect(await channel.entriesBehind("a2")).toEqual({ leafId: "a2", entries: [] });
  expect(await channel.entriesBehind("zz")).toBeNull();
  await pipe.stop(true);
});

test("what the extension said at the start is kept", async () => {
  const { channel, pipe } = await bench({ hello: { entries: 4 } });
  await channel.state();
  expect(channel.hello()).toMatchObject({ say: "hello", version: "1.6.0", entries: 4, isWhole: true });
  await pipe.stop(true);
});

test("an answer of another shape, and none in time, are refusals", async () => {
  const odd = await bench({ state: { isStreaming: "perhaps" } });
  await expect(odd.channel.state()).rejects.toMatchObject({ code: "CLI_REFUSED" });
  await odd.pipe.stop(true);
  const deaf = await bench({ start: [{ deafTo: "get_state" }, { deafTo: "get_entries" }] });
  await expect(deaf.channel.state(200)).rejects.toMatchObject({ code: "CLI_REFUSED" });
  await expect(deaf.channel.entriesBehind(null)).rejects.toMatchObject({ code: "CLI_REFUSED" });
  await deaf.pipe.stop(true);
});

test("the pipe's loss ends whatever waits, with its own code", async () => {
  const { channel, pipe } = await bench({ start: [{ deafTo: "get_state" }] });
  const waiting = channel.state();
  channel.fail(new HoldfastError("STREAM_LOST", "a line of the CLI is damaged"));
  await expect(waiting).rejects.toMatchObject({ code: "STREAM_LOST" });
  await expect(channel.state()).rejects.toMatchObject({ code: "STREAM_LOST" });
  await pipe.stop(true);
});

test("a dialog outside of a turn is cancelled, once, and a line that is only shown gets no reply", async () => {
  const dialog = { type: "extension_ui_request", id: "d1", method: "editor", title: "Edit" };
  const shown = { type: "extension_ui_request", id: "n1", method: "notify", message: "Hi" };
  const { channel, pipe, rig } = await bench({
    start: [{ print: shown }, { print: dialog }],
    prompts: [{ steps: [] }],
  });
  await channel.state();
  const cancelled = rig.log.lines.filter(({ what }) => what === "a dialog outside of a turn is cancelled");
  expect(cancelled.map(({ fields }) => fields.method)).toEqual(["editor"]);
  await pipe.stop(true);
});

test("what pi does beside its turns is logged up to a bound, the last line of which says so", async () => {
  const { channel, pipe, rig } = await bench();
  for (let at = 0; at < 50; at += 1) channel.takeFault("agent_end");
  expect(rig.log.lines).toHaveLength(20);
  expect(rig.log.lines.map(({ fields }) => fields.isLast).indexOf(true)).toBe(19);
  await pipe.stop(true);
});

test("an answer that nobody waits for is logged, and does no harm", async () => {
  const { channel, pipe, rig } = await bench();
  channel.takeAnswer({ type: "response", id: "hf99", success: true });
  channel.takeAnswer({ type: "response", command: "parse", success: false, error: "x" });
  expect(rig.log.lines).toHaveLength(2);
  await channel.state();
  await pipe.stop(true);
});
