import { expect, test } from "vitest";
import { settled } from "../../../support/fake-clock.ts";
import { ask, bench, lookUp, status } from "./desk-bench.ts";

test("a request gets one reply, and the CLI's own event confirms it", async () => {
  const { desk, replies, asked, closed, clock } = bench();
  ask(desk, "per_1");
  await settled();
  expect(desk.pending()).toMatchObject([{ id: "per_1" }]);
  desk.replied("ses_ours", "per_1");
  await clock.elapse(0);
  expect(replies).toEqual(["per_1 once"]);
  expect(asked).toEqual([["per_1", null]]);
  expect(closed).toEqual([
    {
      request: "per_1",
      session: "ses_ours",
      result: "confirmed",
      reply: "once",
      by: "policy",
      detail: "replied event",
    },
  ]);
  expect(desk.pending()).toEqual([]);
});

test("no event, and gone from the list: confirmed by that", async () => {
  const { desk, replies, closed, clock } = bench();
  ask(desk, "per_1");
  await clock.elapse(1100);
  expect(replies).toHaveLength(1);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "left the pending list" });
});

test("P9: 200 and still pending is no success: tried again a bounded number of times, then unresolved", async () => {
  const { desk, replies, closed, unresolved, pending, clock } = bench();
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toEqual(["per_1 once", "per_1 once", "per_1 once"]);
  expect(closed).toHaveLength(1);
  expect(closed[0]).toMatchObject({ result: "unresolved", reply: "once", by: "policy" });
  expect(unresolved).toEqual(["POST /permission/:id/reply answered 200, and the request is still pending"]);
});

test("P9: a request of another session with the same id in the list is not this one", async () => {
  const { desk, closed, pending, clock } = bench();
  pending.push({ id: "per_1", sessionID: "ses_theirs" });
  ask(desk, "per_1");
  await clock.elapse(2000);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "left the pending list" });
});

test.each([400, 500, 502])(
  "P11: %i each time is tried again, then unresolved with endpoint and status",
  async (code) => {
    const { desk, replies, unresolved, pending, clock } = bench({ onReply: status(code) });
    pending.push({ id: "per_1", sessionID: "ses_ours" });
    ask(desk, "per_1");
    await clock.elapse(20_000);
    expect(replies).toHaveLength(3);
    expect(unresolved).toEqual([
      `POST /permission/:id/reply answered ${code}, and the request is still pending`,
    ]);
  },
);

test("P11: a reply that is never answered leaves time for another try", async () => {
  const limits: number[] = [];
  const { desk, replies, unresolved, pending, clock } = bench({
    onReply: async (_id, _reply, limitMs) => {
      limits.push(limitMs);
      await new Promise<void>((resolve) => clock.after(limitMs, resolve));
      throw new Error(`no answer within ${Math.round(limitMs)} ms`);
    },
  });
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(30_000);
  expect(replies.length).toBeGreaterThanOrEqual(2);
  expect(limits[0]).toBeLessThan(5000);
  expect(unresolved).toHaveLength(1);
  expect(unresolved[0]).toContain("no answer within");
});

test("a list that can't be read is no confirmation", async () => {
  const { desk, replies, unresolved, clock } = bench({
    onList: () => {
      throw new Error("GET /permission answered 500");
    },
  });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(3);
  expect(unresolved[0]).toContain("GET /permission answered 500");
});

test("one failure, then success: the same decision again", async () => {
  let tries = 0;
  const { desk, replies, closed, pending, clock } = bench({
    onReply: () => {
      tries += 1;
      if (tries === 2) pending.length = 0;
      return { status: tries === 1 ? 500 : 200, json: null };
    },
  });
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(5000);
  expect(replies).toEqual(["per_1 once", "per_1 once"]);
  expect(closed[0]?.result).toBe("confirmed");
});

test("a failed call that took effect all the same is not repeated", async () => {
  const { desk, replies, closed, clock } = bench({ onReply: status(500) });
  ask(desk, "per_1");
  await clock.elapse(5000);
  expect(replies).toHaveLength(1);
  expect(closed[0]?.result).toBe("confirmed");
});

test("the event that comes between two tries stops the next one", async () => {
  const { desk, replies, closed, pending, clock } = bench({ onReply: status(500) });
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(1100);
  desk.replied("ses_ours", "per_1");
  await clock.elapse(5000);
  expect(replies).toHaveLength(1);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "replied event" });
});

test("P10: forgotten, 404, and its tool has ended: withdrawn, and the turn goes on", async () => {
  const { desk, replies, closed, unresolved, clock } = bench({ onReply: status(404) });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(1);
  expect(unresolved).toEqual([]);
  expect(closed[0]).toMatchObject({ result: "withdrawn" });
  expect(closed[0]?.detail).toContain("404");
});

test("P10: forgotten, 404, and its tool still waits: unresolved", async () => {
  const { desk, replies, unresolved, clock } = bench({
    onReply: status(404),
    isAtWork: (session, call) => session === "ses_ours" && call === "call_1",
  });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(1);
  expect(unresolved).toEqual(["POST /permission/:id/reply answered 404, and the tool is still at work"]);
});

test("P10: forgotten, and no tool is named that could wait: withdrawn", async () => {
  const { desk, closed, unresolved, clock } = bench({ onReply: status(404), isAtWork: () => true });
  ask(desk, "per_1", "ses_ours", null);
  await clock.elapse(20_000);
  expect(unresolved).toEqual([]);
  expect(closed[0]?.result).toBe("withdrawn");
});

test("P10: the tool that ends a moment later clears it", async () => {
  let isAtWork = true;
  const { desk, closed, unresolved, clock } = bench({ onReply: status(404), isAtWork: () => isAtWork });
  ask(desk, "per_1");
  await clock.elapse(3000);
  expect(desk.pending()).toHaveLength(1);
  isAtWork = false;
  await clock.elapse(1000);
  expect(unresolved).toEqual([]);
  expect(closed[0]?.result).toBe("withdrawn");
});

test("404 after the CLI has reported it as replied counts as done, also when that came before we opened it", async () => {
  const { isOurs, release } = lookUp();
  const { desk, replies, closed, clock } = bench({ onReply: status(404), isOurs, isAtWork: () => true });
  ask(desk, "per_1");
  desk.replied("ses_ours", "per_1");
  release(true);
  await clock.elapse(20_000);
  expect(replies).toEqual([]);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "replied event" });
});

test("siblings settled by one reject's cascade are noticed, each closed once", async () => {
  const { desk, closed, clock } = bench({ decision: "reject" });
  ask(desk, "per_1");
  ask(desk, "per_2");
  await settled();
  desk.replied("ses_ours", "per_1");
  desk.replied("ses_ours", "per_2");
  await clock.elapse(20_000);
  expect(closed.map(({ request, result }) => `${request} ${result}`).sort()).toEqual([
    "per_1 confirmed",
    "per_2 confirmed",
  ]);
});

test("P12: event and list together make one reply", async () => {
  const { desk, replies, asked, clock } = bench();
  ask(desk, "per_1");
  ask(desk, "per_1");
  await clock.elapse(5000);
  ask(desk, "per_1");
  await clock.elapse(5000);
  expect(replies).toHaveLength(1);
  expect(asked).toHaveLength(1);
});

test("P15: the same request id in two sessions is two requests", async () => {
  const { desk, replies, closed, clock } = bench();
  ask(desk, "per_1", "ses_ours");
  ask(desk, "per_1", "ses_ours_child");
  await settled();
  desk.replied("ses_ours_child", "per_1");
  await clock.elapse(0);
  expect(replies).toHaveLength(2);
  expect(closed).toMatchObject([{ session: "ses_ours_child" }]);
  expect(desk.pending()).toMatchObject([{ session: "ses_ours" }]);
});

test("a stranger's request gets no reply and no report", async () => {
  const { desk, replies, asked, closed, unresolved, clock } = bench();
  ask(desk, "per_1", "ses_theirs");
  await clock.elapse(20_000);
  expect([replies, asked, closed, unresolved]).toEqual([[], [], [], []]);
});

test("whose a request is can't be asked: unresolved, never left waiting", async () => {
  const { desk, unresolved, clock } = bench({
    isOurs: async () => {
      throw new Error("GET /session/:id answered 500");
    },
  });
  ask(desk, "per_1");
  await clock.elapse(0);
  expect(unresolved).toHaveLength(1);
  expect(unresolved[0]).toMatch(/^a request could not be handled: .*GET \/session\/:id answered 500/);
});

test("an id that can't be put into a path or a record is unresolved and never sent", async () => {
  const { desk, replies, unresolved, clock } = bench();
  ask(desk, "per\n1");
  ask(desk, "x".repeat(300));
  ask(desk, "per_1", "ses ours");
  await clock.elapse(0);
  expect(replies).toEqual([]);
  expect(unresolved).toHaveLength(3);
});

test("too many requests in one turn are unresolved", async () => {
  const { desk, unresolved, clock } = bench({ isOurs: async () => false });
  for (let number = 0; number <= 10_000; number += 1) ask(desk, `per_${number}`);
  await clock.elapse(0);
  expect(unresolved).toEqual(["more than 10000 requests in one turn"]);
});
