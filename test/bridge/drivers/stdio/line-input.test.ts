// The input without a process: a pipe that takes what the test lets it take, and a clock that moves by hand.
import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createLineInput, INPUT_BYTES } from "../../../../bridge/drivers/stdio/line-input.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

const GONE = new HoldfastError("CLI_EXITED", "the CLI ended (code 7, signal null)");

function bench() {
  const clock = new FakeClock();
  const written: string[] = [];
  const takes: Array<(error?: Error) => void> = [];
  const failed: string[] = [];
  let isGone = false;
  const stdin = new Writable({
    write(chunk: Buffer, _encoding, taken) {
      written.push(chunk.toString().slice(0, 40));
      takes.push(taken);
    },
  });
  stdin.on("error", () => undefined /* as the process does */);
  const input = createLineInput({
    stdin,
    clock,
    hasExited: () => isGone,
    onFailed: (reason) => failed.push(reason),
  });
  /** How each send ended, in the order of the ends. */
  const ends: string[] = [];
  return {
    clock,
    stdin,
    input,
    written,
    failed,
    ends,
    send(name: string, message: unknown = { name }, limitMs = 1000) {
      input.send(message, limitMs).then(
        () => ends.push(`${name} sent`),
        (error: HoldfastError) => ends.push(`${name} ${error.code}`),
      );
    },
    async take(error?: Error) {
      takes.shift()?.(error);
      await settled();
    },
    exit() {
      isGone = true;
    },
  };
}

const EPIPE = new Error("write EPIPE");

test("lines go out in the order in which they were sent, and each ends when the pipe has all of it", async () => {
  const { send, take, ends, written, clock } = bench();
  send("a");
  send("b");
  await settled();
  expect([ends, written]).toEqual([[], ['{"name":"a"}\n']]);
  await take();
  expect([ends, written]).toEqual([["a sent"], ['{"name":"a"}\n', '{"name":"b"}\n']]);
  await take();
  expect(ends).toEqual(["a sent", "b sent"]);
  expect(clock.pending).toBe(0);
});

test("a line that is not taken within its limit ends the input: it is cut, told once, and nothing follows it", async () => {
  const { send, take, ends, failed, stdin, clock, written } = bench();
  send("a", { name: "a" }, 1000);
  send("b", { name: "b" }, 5000);
  await clock.elapse(999);
  expect(ends).toEqual([]);
  await clock.elapse(1);
  expect(ends).toEqual(["a CLI_REFUSED", "b CLI_REFUSED"]);
  expect(failed).toEqual(["the CLI took no input within 1000 ms"]);
  expect(stdin.destroyed).toBe(true);
  send("c");
  await take();
  await clock.elapse(60_000);
  expect(ends).toEqual(["a CLI_REFUSED", "b CLI_REFUSED", "c CLI_REFUSED"]);
  expect([failed.length, written, clock.pending]).toEqual([1, ['{"name":"a"}\n'], 0]);
});

test("the limit counts from the call, also for a line behind another one", async () => {
  const { send, ends, clock } = bench();
  send("a", { name: "a" }, 5000);
  send("b", { name: "b" }, 1000);
  await clock.elapse(1000);
  expect(ends[0]).toMatch(/CLI_REFUSED/);
});

test("law 13: after a freeze what the pipe has taken meanwhile counts first", async () => {
  const { send, take, ends, clock } = bench();
  send("a");
  await settled();
  clock.freeze(5000, () => void take());
  await clock.elapse(5000);
  expect(ends).toEqual(["a sent"]);
});

test("P29: a failed write waits for the exit, which is the cause: all sends end with it, once", async () => {
  const { send, take, ends, failed, input, exit, clock } = bench();
  send("a");
  send("b");
  await settled();
  await take(EPIPE);
  expect(ends).toEqual([]);
  exit();
  await clock.elapse(10_000);
  expect([ends, failed]).toEqual([[], []]);
  input.fail(GONE);
  input.fail(new HoldfastError("INTERNAL"));
  await settled();
  expect(ends).toEqual(["a CLI_EXITED", "b CLI_EXITED"]);
  expect(failed).toEqual([]);
  await expect(input.send({}, 1000)).rejects.toBe(GONE);
});

test("a CLI that has closed its stdin and lives on has lost the pipe, after a bound", async () => {
  const { send, take, ends, failed, clock } = bench();
  send("a");
  await settled();
  await take(EPIPE);
  await clock.elapse(249);
  expect([ends, failed]).toEqual([[], []]);
  await clock.elapse(1);
  expect(ends).toEqual(["a CLI_EXITED"]);
  expect(failed).toEqual(["the CLI's stdin failed: write EPIPE"]);
  expect(clock.pending).toBe(0);
});

test("behind its end nothing is sent, and what was sent before still is", async () => {
  const { send, take, ends, input } = bench();
  send("a");
  input.end();
  send("b");
  await settled();
  expect(ends).toEqual(["b CLI_EXITED"]);
  await take();
  expect(ends).toEqual(["b CLI_EXITED", "a sent"]);
});

test("so many bytes may wait and no more; what is refused leaves nothing behind, and smaller ones still go", async () => {
  const { send, take, ends, written, clock } = bench();
  const half = "x".repeat(INPUT_BYTES / 2);
  send("a", half, 60_000);
  send("b", half, 60_000);
  send("c", {}, 60_000);
  await settled();
  expect(ends).toEqual(["b OVERLOADED"]);
  await take();
  await take();
  expect(ends).toEqual(["b OVERLOADED", "a sent", "c sent"]);
  expect([written.length, clock.pending]).toEqual([2, 0]);
});

test("what can't be written as JSON is an error of that send alone", async () => {
  const { send, take, ends } = bench();
  let deep: unknown = [];
  for (let level = 0; level < 100_000; level += 1) deep = [deep];
  send("deep", deep);
  send("a");
  await settled();
  await take();
  expect(ends).toEqual(["deep INTERNAL", "a sent"]);
});
