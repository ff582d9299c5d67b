import { expect, test } from "vitest";
import { openChannel } from "../../../../bridge/drivers/codex/channel.ts";
import type { Pipe } from "../../../../bridge/drivers/stdio/resident.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

function rig(send: (message: unknown) => Promise<void> = async () => undefined) {
  const clock = new FakeClock();
  const sent: unknown[] = [];
  const request = { clock, limits: { requestMs: 1000 } };
  const pipe = {
    request,
    send: (message: unknown) => {
      sent.push(message);
      return send(message);
    },
  } as unknown as Pipe;
  return { clock, sent, channel: openChannel(pipe) };
}

test("requests are numbered, and each gets its own answer in any order", async () => {
  const { channel, sent } = rig();
  const calls = [channel.ask("a", { x: 1 }), channel.ask("b", {})];
  expect(sent).toEqual([
    { id: 1, method: "a", params: { x: 1 } },
    { id: 2, method: "b", params: {} },
  ]);
  channel.takeAnswer({ kind: "result", id: 2, result: "second" });
  channel.takeAnswer({ kind: "result", id: 1, result: "first" });
  channel.takeAnswer({ kind: "result", id: 9, result: "nobody's" });
  expect(await Promise.all(calls)).toEqual(["first", "second"]);
});

test("a refusal is an answer for who wants it, and an error for who needs a result", async () => {
  const { channel } = rig();
  const call = channel.call("turn/interrupt", {});
  const asked = channel.ask("thread/read", {});
  for (const id of [1, 2])
    channel.takeAnswer({ kind: "refused", id, code: -32600, message: "no such thread" });
  expect(await call).toMatchObject({ kind: "refused", message: "no such thread" });
  await expect(asked).rejects.toMatchObject({
    code: "CLI_REFUSED",
    message: expect.stringContaining("no such thread"),
  });
});

test("whoever listens hears the answer while its line is read, and a late one too", async () => {
  const { channel, clock } = rig();
  const heard: unknown[] = [];
  const call = channel.call(
    "turn/start",
    {},
    { limitMs: 500, onAnswer: (answer) => heard.push(answer.kind) },
  );
  const failed = expect(call).rejects.toMatchObject({ code: "CLI_REFUSED" });
  clock.advance(500);
  await failed;
  channel.takeAnswer({ kind: "result", id: 1, result: {} });
  channel.takeAnswer({ kind: "result", id: 1, result: {} });
  expect(heard).toEqual(["result"]);
});

test("replies to codex's own requests carry its id and no method", async () => {
  const { channel, sent } = rig();
  await channel.reply(0, { decision: "accept" });
  await channel.refuse("x", "not supported");
  await channel.notify("initialized");
  expect(sent).toEqual([
    { id: 0, result: { decision: "accept" } },
    { id: "x", error: { code: -32601, message: "not supported" } },
    { method: "initialized" },
  ]);
});

test("the pipe's loss ends all that waits, and all that comes later", async () => {
  const { channel } = rig();
  const call = channel.ask("thread/read", {});
  channel.fail(new HoldfastError("CLI_EXITED", "gone"));
  await expect(call).rejects.toMatchObject({ code: "CLI_EXITED" });
  await expect(channel.ask("thread/read", {})).rejects.toMatchObject({ code: "CLI_EXITED" });
});
