// A CLI on lines as a real process that plays its faults (test/stand-ins/lines.ts), with real pipes and real time.
import { expect, onTestFinished, test } from "vitest";
import { listSlot } from "../../../../bridge/census.ts";
import { type LineProcess, startLineProcess } from "../../../../bridge/drivers/stdio/line-process.ts";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { HoldfastError } from "../../../../protocol/errors.ts";
import type { LineStep } from "../../../stand-ins/lines.ts";
import { standIn } from "../../../support/stand-in.ts";
import { until, within } from "../../../support/until.ts";
import { ENVIRONMENT, pipeRig } from "./pipe-rig.ts";

const MIB = 1024 * 1024;

interface Changes {
  command?: readonly string[];
  limits?: Partial<DriverLimits>;
  gracefulMs?: number;
  onMessage?: (message: Record<string, unknown>) => void;
}

async function start(steps: readonly LineStep[], changes: Changes = {}) {
  const { request, log } = await pipeRig(steps, changes.limits);
  /** Messages by their text or type, `lost REASON` and `exit CODE`, in their order. */
  const told: string[] = [];
  const sequences: number[] = [];
  const exited = Promise.withResolvers<void>();
  const line: LineProcess = await startLineProcess({
    request: { ...request, command: changes.command ?? request.command },
    args: [],
    environment: ENVIRONMENT,
    ownKey: "type",
    gracefulMs: changes.gracefulMs,
    onMessage(message, sequence) {
      told.push(
        message.type === "big" ? `big ${String(message.text).length}` : String(message.line ?? message.type),
      );
      sequences.push(sequence);
      changes.onMessage?.(message);
    },
    onLost: (reason) => told.push(`lost ${reason}`),
    onExit(exit) {
      told.push(`exit ${exit.code}`);
      exited.resolve();
    },
  });
  onTestFinished(async () => {
    expect(await line.stop(false)).toEqual([]);
  });
  return {
    line,
    log,
    told,
    sequences,
    request,
    exit: () => within("its exit", exited.promise),
    has: (text: string) => until(text, () => told.includes(text)),
  };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "sent",
    ({ code }: HoldfastError) => code,
  );
}

const message = (type: string) => `{"type":"${type}"}`;

test("messages come in order, each with its number, and ours are taken in the order in which they were sent", async () => {
  const { line, told, has, sequences } = await start([
    { out: `${message("a")}\n${message("b")}\n` },
    { echo: true },
  ]);
  await has("b");
  const sends = Array.from({ length: 50 }, (_, n) => line.send({ n, text: "é\u2028🦑".repeat(n) }));
  await within("all sends", Promise.all(sends));
  await until("the echoes", () => told.length === 52);
  expect(told.slice(2).map((text) => JSON.parse(text).n)).toEqual(Array.from({ length: 50 }, (_, n) => n));
  expect(JSON.parse(told[51] ?? "").text).toBe("é\u2028🦑".repeat(49));
  expect(sequences).toEqual(Array.from({ length: 52 }, (_, n) => n + 1));
  expect([line.sequence(), line.isUsable()]).toEqual([52, true]);
});

test("P27: a line of 11 MB and the small ones behind it are read", async () => {
  const { has, line } = await start([{ lineBytes: 11 * MIB }, { out: `${message("small")}\n` }]);
  await has("small");
  expect([line.sequence(), line.isUsable()]).toEqual([2, true]);
});

test("P27: a line without an end loses the stream once, holds no more than its limit, and harms nobody else", async () => {
  const neighbour = await start([{ echo: true }]);
  const before = process.memoryUsage();
  const { told, line } = await start([{ out: `${message("first")}\n` }, { endless: true }]);
  await until("the loss", () => told.length === 2);
  expect(told).toEqual(["first", "lost frame too large: a line exceeds 33554432 bytes"]);
  expect(line.isUsable()).toBe(false);
  // It goes on printing, and it is read and dropped.
  let mostBytes = 0;
  const read = line.native.stdout as unknown as { bytesRead: number };
  const isRead = await until("200 MB more", () => {
    mostBytes = Math.max(mostBytes, process.memoryUsage().arrayBuffers - before.arrayBuffers);
    return read.bytesRead > 200 * MIB;
  });
  expect(isRead).toBe(true);
  expect(mostBytes).toBeLessThan(100 * MIB);
  await neighbour.line.send({ text: "still here" });
  await until("the neighbour's echo", () => neighbour.told.length === 1);
  expect(await line.stop(false)).toEqual([]);
  await until("its exit", () => told.length === 3);
  expect(told[2]).toBe("exit null");
});

test("P28: noise is skipped and logged, what is glued to a message is taken off, nothing hangs", async () => {
  const { told, log, exit } = await start([
    { out: "npm warn deprecated\n\u001b[31mbanner\u001b[0m\n\n  \n[1,2]\n" },
    { out: `\u009b2Knoise${message("agent_settled")}\n` },
    { exit: 0, afterMs: 50 },
  ]);
  await exit();
  expect(told).toEqual(["agent_settled", "exit 0"]);
  expect(log.lines.map(({ fields }) => fields.begins)).toEqual([
    "npm warn deprecated",
    " [31mbanner [0m",
    "[1,2]",
    " 2Knoise",
  ]);
});

test("P28: a damaged line ends the stream, and nothing behind it is delivered", async () => {
  const { told, log, has, line } = await start([
    { out: `${message("a")}\n{"type":"resu\n${message("b")}\n` },
    { read: true },
    { out: `${message("c")}\n` },
    { exit: 0, afterMs: 50 },
  ]);
  await has("lost a line of the CLI is damaged");
  // The way in is still open, to end the turn.
  await line.send({ type: "interrupt" });
  await has("exit 0");
  expect(told).toEqual(["a", "lost a line of the CLI is damaged", "exit 0"]);
  expect(JSON.stringify(log.lines)).not.toContain("resu");
});

test("a fault of whoever takes the messages loses the stream and not the bridge, at the end of stdout too", async () => {
  for (const out of [`${message("bad")}\n`, message("bad")]) {
    const { has, told } = await start([{ out }, { close: 1 }], {
      onMessage: () => {
        throw new TypeError("not a function");
      },
    });
    await until("the loss", () => told.length === 2);
    expect(told[1]).toContain("not a function");
    await has("bad");
  }
});

test("P29: an exit while a child holds the pipe open is reported within a bound, behind all that was printed", async () => {
  const startMs = performance.now();
  const { told, exit, line, request } = await start([
    { child: true },
    { out: `${message("a")}\n` },
    { lineBytes: 300_000 },
    { out: message("no-end") },
    { exit: 3 },
  ]);
  await exit();
  expect(told).toEqual(["a", "big 299976", "no-end", "exit 3"]);
  // The bound is 250 ms behind the exit; starting the stand-in takes longer than that.
  expect(performance.now() - startMs).toBeLessThan(8000);
  expect(await listSlot(request.slot.mark)).toHaveLength(1);
  expect(await line.stop(false)).toEqual([]);
  expect(await listSlot(request.slot.mark)).toEqual([]);
});

test("P29: what was still in the pipe at the exit comes first, also without a last line feed", async () => {
  for (const end of ["\n", ""]) {
    const { told, exit } = await start([
      { lineBytes: 200_000 },
      { out: `${message("result")}${end}` },
      { exit: 1 },
    ]);
    await exit();
    expect(told).toEqual(["big 199976", "result", "exit 1"]);
  }
});

test("P29: what is read behind the exit still comes first, and damage in it does not hide the exit", async () => {
  for (const [behind, read] of [
    [`${message("result")}\n`, ["a", "big 99976", "result"]],
    ['{"type":"resu\n', ["a", "big 99976"]],
  ] as const) {
    const { told, exit, has, line } = await start([
      { out: `${message("a")}\n` },
      { read: true },
      // More than Node reads ahead of a paused stream.
      { lineBytes: 100_000 },
      { out: behind },
      { exit: 1 },
    ]);
    await has("a");
    line.native.stdout.pause();
    await line.send({});
    await within("its end", line.native.exited);
    line.native.stdout.resume();
    await exit();
    expect(told).toEqual([...read, "exit 1"]);
  }
});

test("an exit in the middle of a line is an exit, and not a damaged stream", async () => {
  const { told, exit } = await start([{ out: `${message("a")}\n{"type":"resu` }, { exit: 1 }]);
  await exit();
  expect(told).toEqual(["a", "exit 1"]);
});

test("P29: an end of stdout without an exit is a loss, told once, and the exit later", async () => {
  for (const out of [`${message("a")}\n`, `${message("a")}\n{"type":"resu`]) {
    const { told, has, line } = await start([{ out }, { close: 1 }, { read: true }, { exit: 0 }]);
    await has("lost the CLI closed its stdout");
    expect([line.isUsable(), line.native.hasExited()]).toEqual([false, false]);
    await line.send({});
    await has("exit 0");
    expect(told).toEqual(["a", "lost the CLI closed its stdout", "exit 0"]);
  }
});

test("P29: an exit at once with 64 MB still to be written: the send ends with it, once, behind the exit; nobody else is harmed", async () => {
  const neighbour = await start([{ echo: true }]);
  const { line, told, exit } = await start([], { command: standIn("exits-at-once.ts") });
  const ends: string[] = [];
  const sends = [{ text: "x".repeat(64 * MIB) }, { text: "second" }].map((text) =>
    codeOf(line.send(text, 20_000)).then((code) => {
      ends.push(`${code} behind ${told.at(-1)}`);
    }),
  );
  await exit();
  await within("the sends' end", Promise.all(sends));
  expect(ends).toEqual(["CLI_EXITED behind exit 7", "CLI_EXITED behind exit 7"]);
  expect(told).toEqual(["exit 7"]);
  expect(await codeOf(line.send({}))).toBe("CLI_EXITED");
  expect(line.native.stdin.writableLength).toBe(0);
  await neighbour.line.send({ text: "still here" });
  await until("the neighbour's echo", () => neighbour.told.length === 1);
});

test("P29: a CLI that does not read its stdin: the send ends at its limit, the pipe is lost, and nothing of it runs later", async () => {
  const { line, told, has } = await start([{ out: `${message("up")}\n` }, { exit: 0, afterMs: 1500 }]);
  await has("up");
  const large = codeOf(line.send({ text: "x".repeat(8 * MIB) }, 300));
  const behind = codeOf(line.send({ text: "small" }));
  expect(await within("both ends", Promise.all([large, behind]))).toEqual(["CLI_REFUSED", "CLI_REFUSED"]);
  expect(told).toEqual(["up", "lost the CLI took no input within 300 ms"]);
  expect(line.isUsable()).toBe(false);
});

test("a CLI that closes its stdin and lives on is lost at the next send", async () => {
  const { line, told, has } = await start([{ close: 0 }, { out: `${message("up")}\n` }]);
  await has("up");
  expect(await codeOf(line.send({}))).toBe("CLI_EXITED");
  expect(told).toHaveLength(2);
  expect(told[1]).toMatch(/^lost the CLI's stdin failed/);
  expect(line.native.hasExited()).toBe(false);
});

test("P13: stdin stays open until the stop, and its end is the graceful way: no signal follows it", async () => {
  const { line, told, has } = await start([
    { out: `${message("asks")}\n` },
    { echo: true },
    { exit: 5, afterMs: 300 },
  ]);
  await has("asks");
  await line.send({ answer: "late" });
  await has('{"answer":"late"}');
  expect(await line.stop(true)).toEqual([]);
  expect(told.slice(2)).toEqual(["exit 5"]);
});

test("the graceful way has a limit of its own where the CLI needs one, and else that of each step", async () => {
  const slow: LineStep[] = [{ out: `${message("up")}\n` }, { echo: true }, { exit: 5, afterMs: 1000 }];
  const patient = await start(slow, { limits: { stopMs: 300 }, gracefulMs: 5000 });
  const hasty = await start(slow, { limits: { stopMs: 300 } });
  for (const { line, has, told, exit } of [patient, hasty]) {
    await has("up");
    expect(await line.stop(true)).toEqual([]);
    await exit();
    expect(told.at(-1)).toBe(line === patient.line ? "exit 5" : "exit null");
  }
});

test("P43: a text too long for an argument or a variable is refused by its name before anything starts; on stdin it passes", async () => {
  const { request } = await pipeRig([]);
  const huge = "x".repeat(200_000);
  const starting = (args: string[], more: Record<string, string>) =>
    startLineProcess({
      request,
      args,
      environment: { ...ENVIRONMENT, ...more },
      ownKey: "type",
      onMessage: () => undefined,
      onLost: () => undefined,
      onExit: () => undefined,
    });
  await expect(starting([huge], {})).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("argument"),
  });
  await expect(starting([], { PROMPT: huge })).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("PROMPT"),
  });
  expect(await listSlot(request.slot.mark)).toEqual([]);
  const { line, told } = await start([{ echo: true }]);
  await line.send({ text: huge });
  await until("its echo", () => told.length === 1);
  expect(JSON.parse(told[0] ?? "").text).toBe(huge);
});
