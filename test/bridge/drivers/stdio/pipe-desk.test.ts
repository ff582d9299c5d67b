import { expect, onTestFinished, test } from "vitest";
import { openPipeDesk, type PipeAsk } from "../../../../bridge/drivers/stdio/pipe-desk.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

const code = (wanted: string) => expect.objectContaining({ code: wanted });

interface Options {
  /** What is decided at once; null asks the user. */
  decision?: string | null;
  send?: (id: string, reply: string) => Promise<void>;
}

function bench({ decision = null, send = async () => undefined }: Options = {}) {
  const clock = new FakeClock();
  const startAt = clock.nowAt();
  const asked: Array<[string, number | null]> = [];
  const replies: string[] = [];
  /** `ID RESULT REPLY BY DETAIL` */
  const closed: string[] = [];
  const unresolved: string[] = [];
  const desk = openPipeDesk<PipeAsk, string>({
    clock,
    decide: () => decision,
    waitMs: () => 60_000,
    expired: () => "default",
    send(ask, reply) {
      replies.push(`${ask.id} ${reply}`);
      return send(ask.id, reply);
    },
    onAsked: ({ id }, deadlineAt) => asked.push([id, deadlineAt === null ? null : deadlineAt - startAt]),
    onClosed: ({ id }, { result, reply, by, detail }) =>
      closed.push(`${id} ${result} ${reply} ${by} (${detail})`),
    onUnresolved: (detail) => unresolved.push(detail),
  });
  onTestFinished(async () => {
    desk.close("the test is over");
    await settled();
    expect([clock.pending, desk.open()]).toEqual([0, []]);
    expect(closed.map((line) => line.split(" ")[0]).toSorted(), "each closed once").toEqual(
      asked.map(([id]) => id).toSorted(),
    );
  });
  return {
    clock,
    desk,
    asked,
    replies,
    closed,
    unresolved,
    ask: (id: string, session = "ses") => desk.asked({ id, session }),
    answer: (id: string, reply = "mine", session = "ses") => desk.answer(session, id, () => reply),
  };
}

const never = () => new Promise<void>(() => undefined);
const fails = () => Promise.reject(new HoldfastError("CLI_EXITED", "the CLI takes no more input"));

test("what the policy decides is written at once, once, and confirmed by what the CLI does next", async () => {
  const { ask, desk, asked, replies, closed, answer } = bench({ decision: "once" });
  ask("r1");
  ask("r1");
  await settled();
  expect([asked, replies, closed]).toEqual([[["r1", null]], ["r1 once"], []]);
  expect(() => answer("r1")).toThrow(code("REQUEST_CLOSED"));
  desk.confirmed("r1", "the tool started");
  desk.confirmed("r1", "again");
  expect(closed).toEqual(["r1 confirmed once policy (the tool started)"]);
});

test("the user is asked with a deadline, and what they say is written once", async () => {
  const { ask, answer, desk, asked, replies, closed, clock } = bench();
  ask("r1");
  await clock.elapse(59_000);
  expect([asked, replies, desk.open()]).toEqual([[["r1", 60_000]], [], [{ id: "r1", session: "ses" }]]);
  answer("r1");
  expect(desk.open()).toEqual([]);
  await clock.elapse(60_000);
  desk.confirmed("r1", "it went on");
  expect([replies, closed]).toEqual([["r1 mine"], ["r1 confirmed mine user (it went on)"]]);
});

test("P14: nobody answers: the default is written at the deadline, and a later answer is late", async () => {
  const { ask, answer, desk, replies, closed, clock } = bench();
  ask("r1");
  await clock.elapse(59_999);
  expect(replies).toEqual([]);
  await clock.elapse(1);
  expect(replies).toEqual(["r1 default"]);
  expect(() => answer("r1")).toThrow(code("REQUEST_CLOSED"));
  desk.confirmed("r1", "it went on");
  expect(closed).toEqual(["r1 confirmed default deadline (it went on)"]);
});

test("law 13: an answer that came while the process stood still counts before the deadline", () => {
  const { ask, answer, replies, clock } = bench();
  ask("r1");
  clock.freeze(120_000, () => answer("r1"));
  clock.advance(120_000);
  expect(replies).toEqual(["r1 mine"]);
});

test("an answer that does not fit is refused, and the request stays open for one that does", () => {
  const { ask, desk, answer, replies } = bench();
  ask("r1");
  const refuse = () =>
    desk.answer("ses", "r1", () => {
      throw new HoldfastError("REQUEST_INVALID");
    });
  expect(refuse).toThrow(code("REQUEST_INVALID"));
  answer("r1");
  expect(replies).toEqual(["r1 mine"]);
});

test("P15: a second answer, one to another session's request and one to none are refused, before and after the end", async () => {
  const { ask, desk, answer, replies } = bench();
  ask("r1");
  ask("r2", "child");
  answer("r1");
  for (const when of ["open", "confirmed", "closed"]) {
    if (when === "confirmed") desk.confirmed("r1", "");
    if (when === "closed") desk.close("over");
    expect(() => answer("r1"), when).toThrow(code("REQUEST_CLOSED"));
    expect(() => answer("r1", "x", "child"), when).toThrow(code("REQUEST_UNKNOWN"));
    expect(() => answer("r2", "x", "ses"), when).toThrow(code("REQUEST_UNKNOWN"));
    expect(() => answer("r9"), when).toThrow(code("REQUEST_UNKNOWN"));
  }
  expect(() => answer("r2", "x", "child")).toThrow(code("REQUEST_CLOSED"));
  expect(replies).toEqual(["r1 mine"]);
});

test("cancelled by the CLI before a decision: withdrawn, nobody decided, nothing is written, and an answer is late", async () => {
  const { ask, answer, desk, replies, closed, clock } = bench();
  ask("r1");
  desk.cancelled("r1", "interrupted");
  desk.cancelled("r9", "unknown");
  expect(() => answer("r1")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(120_000);
  expect([replies, closed]).toEqual([[], ["r1 withdrawn null null (interrupted)"]]);
});

test("cancelled by the CLI behind a decision: withdrawn, and the books keep what was said", async () => {
  const { ask, desk, closed } = bench({ decision: "once" });
  ask("r1");
  desk.cancelled("r1", "interrupted");
  await settled();
  expect(closed).toEqual(["r1 withdrawn once policy (interrupted)"]);
});

test("the CLI goes on by itself while the user is asked: that is no reply of ours that took effect", () => {
  const { ask, desk, closed } = bench();
  ask("r1");
  desk.confirmed("r1", "the tool started");
  expect(closed).toEqual(["r1 withdrawn null null (the tool started)"]);
});

test("a reply that the pipe does not take is unresolved, told once; one that throws likewise", async () => {
  const throws = () => {
    throw new HoldfastError("CLI_EXITED", "the CLI takes no more input");
  };
  for (const send of [fails, throws]) {
    const { ask, closed, unresolved } = bench({ decision: "once", send });
    ask("r1");
    await settled();
    const detail = "the reply was not taken: the CLI takes no more input";
    expect([closed, unresolved]).toEqual([[`r1 unresolved once policy (${detail})`], [detail]]);
  }
});

test("a reply that fails behind its confirmation, cancellation or the end changes nothing, and does not float", async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  const { ask, desk, closed, unresolved } = bench({ decision: "once", send: () => promise });
  for (const id of ["r1", "r2", "r3"]) ask(id);
  desk.confirmed("r1", "done");
  desk.cancelled("r2", "gone");
  desk.close("over");
  reject(new HoldfastError("CLI_EXITED"));
  await settled();
  expect(closed.map((line) => line.split(" ")[1])).toEqual(["confirmed", "withdrawn", "closed_by_end"]);
  expect(unresolved).toEqual([]);
});

test("settled before an abort: each open one gets a reply that nobody decided, and it ends when all are written", async () => {
  const sends = new Map<string, PromiseWithResolvers<void>>();
  const { ask, answer, desk, replies, closed, clock } = bench({
    send(id) {
      const sent = Promise.withResolvers<void>();
      sends.set(id, sent);
      return sent.promise;
    },
  });
  for (const id of ["r1", "r2", "r3"]) ask(id);
  answer("r1");
  let isSettled = false;
  const settling = desk
    .settle(() => "no")
    .then(() => {
      isSettled = true;
    });
  expect(replies).toEqual(["r1 mine", "r2 no", "r3 no"]);
  expect(() => answer("r2")).toThrow(code("REQUEST_CLOSED"));
  sends.get("r2")?.resolve();
  await settled();
  expect(isSettled).toBe(false);
  sends.get("r3")?.resolve();
  await settling;
  desk.cancelled("r2", "aborted");
  await clock.elapse(120_000);
  expect([replies.length, closed]).toEqual([3, ["r2 withdrawn no null (aborted)"]]);
});

test("settling ends also when nothing can be written any more, or nothing is open", async () => {
  const { ask, desk, unresolved } = bench({ send: fails });
  await desk.settle(() => "no");
  ask("r1");
  await desk.settle(() => "no");
  expect(unresolved).toHaveLength(1);
});

test("at the end what is open, on its way, or written and not confirmed is closed by it, each as far as it came", async () => {
  const { ask, answer, desk, closed, clock, replies } = bench({
    send: (id) => (id === "slow" ? never() : Promise.resolve()),
  });
  for (const id of ["open", "slow", "written", "done"]) ask(id);
  for (const id of ["slow", "written", "done"]) answer(id);
  await settled();
  desk.confirmed("done", "it went on");
  desk.close("the turn ended");
  desk.close("again");
  ask("later");
  desk.confirmed("written", "late");
  await clock.elapse(120_000);
  expect(closed).toEqual([
    "done confirmed mine user (it went on)",
    "open closed_by_end null null (the turn ended)",
    "slow closed_by_end mine user (the turn ended)",
    "written closed_by_end mine user (written; the turn ended)",
  ]);
  expect(replies).toHaveLength(3);
});

test("the 10,001st request of a turn is unresolved and asks nobody", () => {
  const { ask, asked, desk, unresolved } = bench({ decision: "once", send: never });
  for (let at = 0; at < 10_000; at += 1) ask(`r${at}`);
  expect(unresolved).toEqual([]);
  desk.confirmed("r0", "closed ones count too");
  ask("one-more");
  expect([asked.length, unresolved]).toEqual([10_000, ["more than 10000 requests in one turn"]]);
});

test("an unusable id is unresolved: nobody could answer it", () => {
  const ids = [
    "",
    "x".repeat(257),
    "a b",
    "a\n",
    "a\u0000",
    7 as unknown as string,
    null as unknown as string,
  ];
  for (const id of ids) {
    const { ask, asked, unresolved } = bench();
    ask(id);
    ask("r1", id);
    expect([asked, unresolved]).toEqual([
      [],
      ["a request has an unusable id", "a request has an unusable id"],
    ]);
  }
});

test("law 9: the id of a closed request that comes again is unresolved, since its second asker would wait for ever", () => {
  const { ask, desk, unresolved, replies } = bench();
  ask("r1");
  desk.cancelled("r1", "gone");
  ask("r1");
  expect([unresolved, replies]).toEqual([["the id of a closed request was used again"], []]);
});
