// What a desk does with the user's decisions, with deadlines, and at the end of the turn.
import { expect, test } from "vitest";
import { HoldfastError } from "../../../../protocol/errors.ts";
import { settled } from "../../../support/fake-clock.ts";
import { answer, ask, bench, lookUp } from "./desk-bench.ts";

const asksUser = { decision: null };
const code = (wanted: string) => expect.objectContaining({ code: wanted });

test("the user is asked with a deadline, nothing is sent before the answer, and the answer is sent once", async () => {
  const { desk, replies, asked, closed, clock } = bench(asksUser);
  ask(desk, "per_1");
  await clock.elapse(59_000);
  expect(asked).toEqual([["per_1", 60_000]]);
  expect(replies).toEqual([]);
  answer(desk, "per_1");
  await settled();
  desk.replied("ses_ours", "per_1");
  await clock.elapse(5000);
  expect(replies).toEqual(["per_1 mine"]);
  expect(closed).toMatchObject([{ result: "confirmed", reply: "mine", by: "user" }]);
});

test("P14: nobody answers: at the deadline the default is sent, and the books say who decided", async () => {
  const { desk, replies, closed, clock } = bench(asksUser);
  ask(desk, "per_1");
  await clock.elapse(59_999);
  expect(replies).toEqual([]);
  await clock.elapse(2000);
  expect(replies).toEqual(["per_1 default"]);
  expect(closed).toMatchObject([{ result: "confirmed", reply: "default", by: "deadline" }]);
});

test("P14: the deadline counts from the request, not from when the user was last heard", async () => {
  const { desk, replies, clock } = bench(asksUser);
  ask(desk, "per_1");
  await clock.elapse(40_000);
  const refuse = () =>
    desk.answer("ses_ours", "per_1", () => {
      throw new HoldfastError("REQUEST_INVALID");
    });
  expect(refuse).toThrow(code("REQUEST_INVALID"));
  await clock.elapse(20_500);
  expect(replies).toEqual(["per_1 default"]);
});

test("an answer that does not fit is refused, and the request stays open for one that does", async () => {
  const { desk, replies, clock } = bench(asksUser);
  ask(desk, "per_1");
  await settled();
  const refuse = () =>
    desk.answer("ses_ours", "per_1", () => {
      throw new HoldfastError("REQUEST_INVALID", "no");
    });
  expect(refuse).toThrow(code("REQUEST_INVALID"));
  await clock.elapse(1000);
  expect(replies).toEqual([]);
  answer(desk, "per_1");
  await clock.elapse(2000);
  expect(replies).toEqual(["per_1 mine"]);
});

test("a second answer is refused at once, before and after the first is confirmed", async () => {
  const { desk, replies, clock } = bench(asksUser);
  ask(desk, "per_1");
  await settled();
  answer(desk, "per_1");
  expect(() => answer(desk, "per_1", "other")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(3000);
  expect(() => answer(desk, "per_1", "other")).toThrow(code("REQUEST_CLOSED"));
  expect(replies).toEqual(["per_1 mine"]);
});

test("an answer to what the policy decided is refused", async () => {
  const { desk, replies, clock } = bench();
  ask(desk, "per_1");
  await settled();
  expect(() => answer(desk, "per_1")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(3000);
  expect(replies).toEqual(["per_1 once"]);
});

test("an answer after the deadline, and one after the end, are late", async () => {
  const { desk, replies, clock } = bench(asksUser);
  ask(desk, "per_1");
  ask(desk, "per_2");
  await clock.elapse(60_000);
  expect(() => answer(desk, "per_1")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(5000);
  desk.close("over");
  expect(() => answer(desk, "per_2")).toThrow(code("REQUEST_CLOSED"));
  expect(replies).toEqual(["per_1 default", "per_2 default"]);
});

test("an answer to what was never asked here is unknown: another id, another session, a stranger's request", async () => {
  const { desk, clock } = bench(asksUser);
  ask(desk, "per_1");
  ask(desk, "per_2", "ses_theirs");
  await clock.elapse(1);
  expect(() => answer(desk, "per_9")).toThrow(code("REQUEST_UNKNOWN"));
  expect(() => answer(desk, "per_1", "mine", "ses_ours_child")).toThrow(code("REQUEST_UNKNOWN"));
  expect(() => answer(desk, "per_2", "mine", "ses_theirs")).toThrow(code("REQUEST_UNKNOWN"));
  desk.close("over");
  expect(() => answer(desk, "per_2", "mine", "ses_theirs")).toThrow(code("REQUEST_UNKNOWN"));
});

test("P15: one id from root and child, answered in reverse order: each gets its own; a third answer is late", async () => {
  const { desk, closed, clock } = bench(asksUser);
  ask(desk, "que_1", "ses_ours");
  ask(desk, "que_1", "ses_ours_child");
  await settled();
  answer(desk, "que_1", "for the child", "ses_ours_child");
  await clock.elapse(2000);
  expect(closed).toMatchObject([{ session: "ses_ours_child", reply: "for the child" }]);
  answer(desk, "que_1", "for the root", "ses_ours");
  await clock.elapse(2000);
  expect(closed).toMatchObject([
    { session: "ses_ours_child", reply: "for the child", result: "confirmed" },
    { session: "ses_ours", reply: "for the root", result: "confirmed" },
  ]);
  expect(() => answer(desk, "que_1", "again", "ses_ours_child")).toThrow(code("REQUEST_CLOSED"));
});

test("replied by somebody else while the user was asked: closed with no decision of ours, and nothing is sent", async () => {
  const { desk, replies, closed, clock } = bench(asksUser);
  ask(desk, "per_1");
  await settled();
  desk.replied("ses_ours", "per_1");
  // In the same read: the books are closed a moment later, and an answer in between must not be recorded as the one.
  expect(() => answer(desk, "per_1")).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(70_000);
  expect(replies).toEqual([]);
  expect(closed).toMatchObject([{ result: "confirmed", reply: null, by: null }]);
});

test("nothing is answered after the end; what was pending is closed in our books, once", async () => {
  const { desk, replies, closed, clock } = bench();
  ask(desk, "per_1");
  await settled();
  desk.close("the turn ended");
  desk.close("again");
  ask(desk, "per_2");
  desk.replied("ses_ours", "per_1");
  await clock.elapse(20_000);
  expect(replies).toEqual(["per_1 once"]);
  expect(closed).toEqual([
    {
      request: "per_1",
      session: "ses_ours",
      result: "closed_by_end",
      reply: "once",
      by: "policy",
      detail: "the turn ended",
    },
  ]);
});

test("what waits for the user at the end is closed with no reply, and its deadline passes in silence", async () => {
  const { desk, replies, closed, clock } = bench(asksUser);
  ask(desk, "per_1");
  await settled();
  desk.close("the turn ended");
  await clock.elapse(120_000);
  expect(replies).toEqual([]);
  expect(closed).toMatchObject([{ result: "closed_by_end", reply: null, by: null }]);
});

test("confirmed in the same read that ended the turn: it took effect, and the books say so", async () => {
  const { desk, closed, clock } = bench();
  ask(desk, "per_1");
  await settled();
  desk.replied("ses_ours", "per_1");
  desk.close("the turn ended");
  await clock.elapse(1000);
  expect(closed).toMatchObject([{ result: "confirmed", detail: "replied event" }]);
});

test("an end while a request's ancestry is looked up: it gets no reply and no report", async () => {
  const { isOurs, release } = lookUp();
  const { desk, replies, asked, clock } = bench({ isOurs });
  ask(desk, "per_1");
  desk.close("the turn ended");
  release(true);
  await clock.elapse(1000);
  expect([replies, asked]).toEqual([[], []]);
});

test("an end between a failed try and the next: there is no next", async () => {
  const { desk, replies, unresolved, pending, clock } = bench({
    onReply: () => ({ status: 500, json: null }),
  });
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(1100);
  desk.close("the turn ended");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(1);
  expect(unresolved).toEqual([]);
});
