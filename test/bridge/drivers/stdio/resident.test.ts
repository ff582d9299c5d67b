// A resident on a pipe: the stand-in of test/stand-ins/lines.ts as a real process, and a session that knows no CLI.
import { expect, onTestFinished, test } from "vitest";
import {
  openPipeResident,
  type PipeSession,
  type PipeTurn,
  startPipe,
} from "../../../../bridge/drivers/stdio/resident.ts";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import type { LineStep } from "../../../stand-ins/lines.ts";
import { settled } from "../../../support/fake-clock.ts";
import { until, within } from "../../../support/until.ts";
import { ENVIRONMENT, type PipeRig, pipeRig } from "./pipe-rig.ts";

const line = (type: string) => ({ out: `{"type":"${type}"}\n` });
const PROMPT = { text: "hello", nativeMessage: "msg_1" };

async function pipeOf(
  steps: readonly LineStep[],
  changes: { limits?: Partial<DriverLimits>; gracefulMs?: number } = {},
) {
  const rig: PipeRig = await pipeRig(steps, changes.limits);
  const { gracefulMs } = changes;
  const pipe = await startPipe(rig.request, {
    args: [],
    environment: ENVIRONMENT,
    ownKey: "type",
    ...(gracefulMs === undefined ? {} : { gracefulMs }),
  });
  onTestFinished(async () => {
    expect(await pipe.stop(false)).toEqual([]);
  });
  return { ...rig, pipe };
}

/** A session that writes down what happens to it; each part of it can be replaced. */
async function residentOf(
  steps: readonly LineStep[],
  over: Partial<PipeSession & PipeTurn> = {},
  limits: Partial<DriverLimits> = {},
) {
  const rig = await pipeOf(steps, { limits });
  const { pipe } = rig;
  const calls: string[] = [];
  const ended = Promise.withResolvers<void>();
  const turn: PipeTurn = {
    take: ({ type }) => calls.push(`take ${String(type)}`),
    interrupt: async () => void calls.push("interrupt"),
    ended: ended.promise,
    answerPermission: (session, request, reply) => calls.push(`permission ${session} ${request} ${reply}`),
    answerQuestion: (session, request, answers) => calls.push(`question ${session} ${request} ${answers}`),
    close: () => calls.push("close"),
    ...over,
  };
  const session: PipeSession = {
    nativeId: "ses_1",
    directory: "/workspace",
    take: (message, sequence, active) =>
      active === null ? calls.push(`idle ${String(message.type)}`) : active.take(message, sequence),
    gate: async () => ({ what: "answer", detail: "" }),
    nextMessageId: () => "msg_1",
    openTurn: () => turn,
    async submit({ text }) {
      calls.push("submit");
      await pipe.send({ text });
      return { kind: "accepted" };
    },
    verify: async () => ({ kind: "unavailable", detail: "not asked" }),
    mustRetire: () => null,
    fail: ({ code }) => calls.push(`fail ${code}`),
    ...over,
  };
  const resident = openPipeResident(pipe, session);
  return {
    ...rig,
    resident,
    calls,
    ended,
    has: (text: string) => until(text, () => rig.told.includes(text)),
  };
}

test("what was printed before anybody listened is handed over first, in its order, with its numbers", async () => {
  const { pipe } = await pipeOf([line("a"), line("b"), { read: true }, line("c")]);
  await until("the early ones", () => pipe.sequence() === 2);
  const taken: string[] = [];
  const listener = (name: string) => ({
    onMessage: ({ type }: Record<string, unknown>, sequence: number) =>
      taken.push(`${name} ${String(type)} ${sequence}`),
    onLost: () => undefined,
  });
  pipe.listen(listener("first"));
  expect(taken).toEqual(["first a 1", "first b 2"]);
  pipe.listen(listener("second"));
  await pipe.send({});
  await until("the last one", () => taken.length === 3);
  expect(taken[2]).toBe("second c 3");
});

test("too much before anybody listens loses the pipe: what had room is handed over, then the loss, and nothing behind it", async () => {
  const many: LineStep[] = [{ out: '{"type":"early"}\n'.repeat(1005) }, { read: true }, line("late")];
  const large: LineStep[] = [
    { lineBytes: 30 * 1024 * 1024 },
    { lineBytes: 30 * 1024 * 1024 },
    { read: true },
    line("late"),
  ];
  for (const [steps, kept, all] of [
    [many, 1000, 1005],
    [large, 1, 2],
  ] as const) {
    const { pipe, told } = await pipeOf(steps);
    await until("all of it", () => pipe.sequence() === all);
    const taken: string[] = [];
    pipe.listen({
      onMessage: ({ type }) => taken.push(String(type)),
      onLost: ({ code }) => taken.push(code),
    });
    await pipe.send({});
    await until("the late one", () => pipe.sequence() === all + 1);
    expect([taken.length, taken.at(-1)]).toEqual([kept + 1, "OVERLOADED"]);
    expect(told).toEqual(["1 lost the CLI printed too much before it was ready"]);
    expect([pipe.isUsable(), pipe.subscription()]).toEqual([false, null]);
  }
});

test("a process that ends before anybody listens: its words and its end are told all the same", async () => {
  const { pipe, told } = await pipeOf([line("a"), { exit: 1 }]);
  expect(await within("its exit", pipe.exited)).toMatchObject({ code: 1 });
  const taken: string[] = [];
  pipe.listen({ onMessage: ({ type }) => taken.push(String(type)), onLost: ({ code }) => taken.push(code) });
  expect(taken).toEqual(["a", "CLI_EXITED"]);
  expect(told).toEqual(["1 closed the CLI ended (code 1, signal null)", "exit 1"]);
});

test("messages of the turn are the turn's, those outside of it are the session's", async () => {
  const { resident, calls, told } = await residentOf([
    line("before"),
    { read: true },
    line("in"),
    { read: true },
    line("behind"),
  ]);
  await until("the first", () => calls.includes("idle before"));
  expect(await resident.submit(PROMPT)).toEqual({ kind: "accepted" });
  await until("the turn's", () => calls.includes("take in"));
  resident.endTurn();
  await resident.submit(PROMPT);
  resident.endTurn();
  await until("the last", () => calls.includes("idle behind"));
  expect(calls).toEqual(["idle before", "submit", "take in", "close", "submit", "close", "idle behind"]);
  expect([told, resident.subscription()]).toEqual([["1 live"], 1]);
});

test("the gate passes with evidence of the pipe that carries the turn, and its fault is GATE_FAILED", async () => {
  const answers = [
    Promise.resolve({ what: "answer_returned", detail: "get_state" }),
    Promise.reject(new HoldfastError("CLI_REFUSED", "no result within 5 ms")),
  ];
  answers[1]?.catch(() => undefined);
  const { resident } = await residentOf([{ echo: true }], {
    gate: () => answers.shift() ?? Promise.reject(new Error()),
  });
  expect(await resident.gate()).toMatchObject({
    what: "answer_returned",
    detail: "get_state",
    source: "stream",
    subscription: 1,
    processGeneration: 1,
  });
  await expect(resident.gate()).rejects.toMatchObject({
    code: "GATE_FAILED",
    message: "no result within 5 ms",
  });
});

test("on a lost pipe the gate fails unasked, and nothing is submitted, although stdin is open", async () => {
  const { resident, calls, has, told, observations } = await residentOf([
    { out: '{"type":"resu\n' },
    { echo: true },
  ]);
  await has("1 lost a line of the CLI is damaged");
  await expect(resident.gate()).rejects.toMatchObject({ code: "GATE_FAILED" });
  expect(await resident.submit(PROMPT)).toEqual({ kind: "rejected", detail: "the pipe of the CLI is lost" });
  expect(calls).toEqual(["fail STREAM_LOST"]);
  expect(resident.subscription()).toBeNull();
  // No turn was there to lose it, and a lost pipe is never called live again.
  expect([observations, told.at(-1)]).toEqual([[], "1 lost a line of the CLI is damaged"]);
});

test("a pipe that is lost before the resident is opened is never called live", async () => {
  const { told, resident } = await residentOf([{ exit: 1 }], {});
  if (!resident.hasExited()) await until("its exit", () => told.includes("exit 1"));
  const { pipe, told: later } = await pipeOf([{ exit: 1 }]);
  await within("its exit", pipe.exited);
  pipe.isProven();
  expect(later).toEqual(["1 closed the CLI ended (code 1, signal null)", "exit 1"]);
});

test("law 5: a loss during a turn is told to it once, with its reason", async () => {
  const { resident, calls, has, told, observations } = await residentOf([
    { read: true },
    line("in"),
    { out: '{"type":"resu\n' },
    line("late"),
    { close: 1 },
    { echo: true },
  ]);
  await resident.submit(PROMPT);
  await has("observation stream_lost");
  expect(observations).toMatchObject([
    {
      kind: "stream_lost",
      reason: "a line of the CLI is damaged",
      evidence: { what: "pipe_lost", subscription: 1, sequence: 1 },
    },
  ]);
  expect(calls).toEqual(["submit", "take in", "fail STREAM_LOST"]);
  expect(told).toEqual(["1 live", "1 lost a line of the CLI is damaged", "observation stream_lost"]);
  expect(resident.hasExited()).toBe(false);
});

test("P29: an exit during a turn is an exit, behind its last message, and no lost stream", async () => {
  const { resident, calls, has, told } = await residentOf([
    { read: true },
    line("in"),
    { out: '{"type":"resu' },
    { exit: 7 },
  ]);
  await resident.submit(PROMPT);
  await has("exit 7");
  expect(told).toEqual(["1 live", "1 closed the CLI ended (code 7, signal null)", "exit 7"]);
  expect(calls).toEqual(["submit", "take in", "fail CLI_EXITED"]);
  expect(resident.hasExited()).toBe(true);
});

test("P29: a prompt of 64 MB that the dying CLI does not take is unclear, and the exit is told first", async () => {
  const { resident, told } = await residentOf([{ exit: 7, afterMs: 200 }]);
  const submitted = resident.submit({ ...PROMPT, text: "x".repeat(64 * 1024 * 1024) });
  const before = submitted.then(() => told.at(-1));
  expect(await within("the submission", submitted)).toEqual({
    kind: "unclear",
    detail: "the CLI ended (code 7, signal null)",
  });
  expect(await before).toBe("exit 7");
});

test("a session that fails to open, submit or verify gives an answer and no rejection: the turn must end by it", async () => {
  const fails = () => Promise.reject(new HoldfastError("CLI_REFUSED", "not taken"));
  const throws = () => {
    throw new TypeError("a fault of ours");
  };
  const failing = (await residentOf([{ echo: true }], { submit: fails, verify: fails })).resident;
  expect(await failing.submit(PROMPT)).toEqual({ kind: "unclear", detail: "not taken" });
  expect(await failing.verify()).toEqual({ kind: "unavailable", detail: "not taken" });
  const throwing = (await residentOf([{ echo: true }], { openTurn: throws, verify: throws })).resident;
  expect(await throwing.submit(PROMPT)).toMatchObject({ kind: "unclear" });
  expect(await throwing.verify()).toMatchObject({ kind: "unavailable" });
});

test("an abort is true by the CLI's own word alone, and not before it was asked", async () => {
  const asked = Promise.withResolvers<void>();
  const { resident, ended } = await residentOf([{ echo: true }], { interrupt: () => asked.promise });
  expect(await resident.abort()).toBe(true);
  await resident.submit(PROMPT);
  let result: boolean | null = null;
  const aborting = resident.abort().then((is) => {
    result = is;
  });
  ended.resolve();
  await settled();
  expect(result).toBeNull();
  asked.resolve();
  await aborting;
  expect(result).toBe(true);
});

test("an abort that has no effect is false at its limit, whether the CLI took it or not", async () => {
  const fails = () => Promise.reject(new HoldfastError("CLI_REFUSED", "no such turn"));
  const throws = () => {
    throw new HoldfastError("INTERNAL", "thrown");
  };
  for (const interrupt of [async () => undefined, () => new Promise<void>(() => undefined), fails, throws]) {
    const { resident } = await residentOf([{ echo: true }], { interrupt }, { abortMs: 150 });
    await resident.submit(PROMPT);
    const startMs = performance.now();
    expect(await resident.abort()).toBe(false);
    expect(performance.now() - startMs).toBeGreaterThan(140);
  }
});

test("an abort ends when the process dies: false, and no wait for its limit", async () => {
  const { resident } = await residentOf([{ read: true }, { exit: 0, afterMs: 100 }], {}, { abortMs: 60_000 });
  await resident.submit(PROMPT);
  expect(await within("the abort", resident.abort())).toBe(false);
});

test("a stop is graceful without a turn, and by signals alone with one; the turn is closed first", async () => {
  const slow: LineStep[] = [line("up"), { echo: true }, { exit: 5 }];
  const idle = await residentOf(slow);
  await until("it", () => idle.calls.includes("idle up"));
  expect(await idle.resident.stop()).toEqual([]);
  await idle.has("exit 5");
  const busy = await residentOf(slow);
  await until("it", () => busy.calls.includes("idle up"));
  await busy.resident.submit(PROMPT);
  expect(await busy.resident.stop()).toEqual([]);
  await busy.has("exit null");
  expect(busy.calls.filter((call) => call === "close")).toHaveLength(1);
  expect(busy.exits).toMatchObject([{ signal: "SIGTERM" }]);
});

test("a CLI that needs longer for its graceful end is given it", async () => {
  const { pipe, told } = await pipeOf([line("up"), { echo: true }, { exit: 5, afterMs: 700 }], {
    limits: { stopMs: 200 },
    gracefulMs: 5000,
  });
  await until("it", () => pipe.sequence() === 1);
  expect(await pipe.stop(true)).toEqual([]);
  await until("its exit", () => told.includes("exit 5"));
});

test("answers reach the active turn; without one there is nothing to answer", async () => {
  const { resident, calls } = await residentOf([{ echo: true }]);
  const unknown = expect.objectContaining({ code: "REQUEST_UNKNOWN" });
  expect(() => resident.answerPermission("ses_1", "r", "once")).toThrow(unknown);
  expect(() => resident.answerQuestion("ses_1", "r", null)).toThrow(unknown);
  await resident.submit(PROMPT);
  resident.answerPermission("ses_1", "r", "once");
  resident.answerQuestion("ses_1", "q", [["a"]]);
  resident.endTurn();
  expect(() => resident.answerPermission("ses_1", "r", "once")).toThrow(unknown);
  expect(calls.slice(1)).toEqual(
    expect.arrayContaining(["permission ses_1 r once", "question ses_1 q a", "close"]),
  );
});

test("what the session must retire for is the resident's word, and a lost prompt can't be asked for", async () => {
  const { resident } = await residentOf([{ echo: true }], { mustRetire: () => "it has retried" });
  expect(resident.mustRetire()).toBe("it has retried");
  expect(await resident.holdsMessage("msg_1")).toBe("unclear");
});
