import { expect, onTestFinished, test } from "vitest";
import type { ServeApi } from "../../../../bridge/drivers/serve/api.ts";
import type { Answer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import {
  type DeskOptions,
  openPermissionDesk,
  type PermissionDesk,
} from "../../../../bridge/drivers/serve/permission-desk.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

type Closed = { request: string; session: string; result: string; detail: string };

interface Bench {
  clock: FakeClock;
  desk: PermissionDesk;
  replies: string[];
  asked: string[];
  closed: Closed[];
  unresolved: string[];
  pending: Array<{ id: string; sessionID: string }>;
}

/** What the server does with a reply; by default it answers 200 and keeps nothing pending. */
type OnReply = (request: string, reply: string, limitMs: number) => Promise<Answer> | Answer;

function bench(options: Partial<DeskOptions> & { onReply?: OnReply; onList?: () => void } = {}): Bench {
  const clock = new FakeClock();
  const made: Bench = {
    clock,
    desk: undefined as unknown as PermissionDesk,
    replies: [],
    asked: [],
    closed: [],
    unresolved: [],
    pending: [],
  };
  const { onReply = () => ({ status: 200, json: true }), onList = () => undefined, ...rest } = options;
  const api: Pick<ServeApi, "replyPermission" | "pendingPermissions"> = {
    async replyPermission(request, reply, limitMs) {
      made.replies.push(`${request} ${reply}`);
      return onReply(request, reply, limitMs);
    },
    async pendingPermissions() {
      onList();
      return made.pending;
    },
  };
  made.desk = openPermissionDesk({
    api: api as ServeApi,
    clock,
    directory: "/w",
    policy: "allow",
    limitMs: 10_000,
    isOurs: async (session) => session.startsWith("ses_ours"),
    isAtWork: () => false,
    onObservation(observation) {
      if (observation.kind === "permission_asked") made.asked.push(observation.request.request);
      else {
        const { request, session, result, detail } = observation;
        made.closed.push({ request, session, result, detail });
      }
    },
    onUnresolved: (detail) => made.unresolved.push(detail),
    ...rest,
  });
  onTestFinished(async () => {
    made.desk.close();
    await clock.elapse(60_000);
    expect(clock.pending, "timers left").toBe(0);
  });
  return made;
}

const ask = (desk: PermissionDesk, id: string, session = "ses_ours", call: string | null = "call_1") =>
  desk.asked({ id, session, permission: "bash", patterns: ["ls"], call });

test("a request gets one reply, and the CLI's own event confirms it", async () => {
  const { desk, replies, closed, clock } = bench();
  ask(desk, "per_1");
  await settled();
  expect(desk.pending()).toBe(1);
  desk.replied("ses_ours", "per_1");
  await clock.elapse(0);
  expect(replies).toEqual(["per_1 once"]);
  expect(closed).toEqual([
    { request: "per_1", session: "ses_ours", result: "confirmed", detail: "replied event" },
  ]);
  expect(desk.pending()).toBe(0);
});

test("the policy `deny` rejects", async () => {
  const { desk, replies } = bench({ policy: "deny" });
  ask(desk, "per_1");
  await settled();
  expect(replies).toEqual(["per_1 reject"]);
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
  expect(closed[0]?.result).toBe("unresolved");
  expect(unresolved).toEqual(["POST /permission/:id/reply answered 200, and the request is still pending"]);
});

test.each([400, 500, 502])(
  "P11: %i each time is tried again, then unresolved with endpoint and status",
  async (status) => {
    const { desk, replies, unresolved, pending, clock } = bench({ onReply: () => ({ status, json: null }) });
    pending.push({ id: "per_1", sessionID: "ses_ours" });
    ask(desk, "per_1");
    await clock.elapse(20_000);
    expect(replies).toHaveLength(3);
    expect(unresolved).toEqual([
      `POST /permission/:id/reply answered ${status}, and the request is still pending`,
    ]);
  },
);

test("P11: a reply that is never answered leaves time for another try", async () => {
  const limits: number[] = [];
  const { desk, replies, unresolved, pending, clock } = bench({
    onReply: async (_request, _reply, limitMs) => {
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
  const { desk, replies, closed, clock } = bench({ onReply: () => ({ status: 500, json: null }) });
  ask(desk, "per_1");
  await clock.elapse(5000);
  expect(replies).toHaveLength(1);
  expect(closed[0]?.result).toBe("confirmed");
});

test("the event that comes between two tries stops the next one", async () => {
  const { desk, replies, closed, pending, clock } = bench({ onReply: () => ({ status: 500, json: null }) });
  pending.push({ id: "per_1", sessionID: "ses_ours" });
  ask(desk, "per_1");
  await clock.elapse(1100);
  desk.replied("ses_ours", "per_1");
  await clock.elapse(5000);
  expect(replies).toHaveLength(1);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "replied event" });
});

test("P10a: forgotten, 404, and its tool has ended: cleared, the turn goes on", async () => {
  const { desk, replies, closed, unresolved, clock } = bench({
    onReply: () => ({ status: 404, json: null }),
  });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(1);
  expect(unresolved).toEqual([]);
  expect(closed[0]).toMatchObject({ result: "closed_by_end" });
  expect(closed[0]?.detail).toContain("404");
});

test("P10b: forgotten, 404, and its tool still waits: unresolved", async () => {
  const { desk, replies, unresolved, clock } = bench({
    onReply: () => ({ status: 404, json: null }),
    isAtWork: (session, call) => session === "ses_ours" && call === "call_1",
  });
  ask(desk, "per_1");
  await clock.elapse(20_000);
  expect(replies).toHaveLength(1);
  expect(unresolved).toEqual(["POST /permission/:id/reply answered 404, and the tool is still at work"]);
});

test("P10: the tool that ends a moment later clears it", async () => {
  let isAtWork = true;
  const { desk, closed, unresolved, clock } = bench({
    onReply: () => ({ status: 404, json: null }),
    isAtWork: () => isAtWork,
  });
  ask(desk, "per_1");
  await clock.elapse(3000);
  expect(desk.pending()).toBe(1);
  isAtWork = false;
  await clock.elapse(1000);
  expect(unresolved).toEqual([]);
  expect(closed[0]?.result).toBe("closed_by_end");
});

test("404 after the CLI has reported it as replied counts as done, also when that came before we opened it", async () => {
  let release: (isOurs: boolean) => void = () => undefined;
  const { desk, replies, closed, clock } = bench({
    onReply: () => ({ status: 404, json: null }),
    isOurs: () =>
      new Promise((resolve) => {
        release = resolve;
      }),
    isAtWork: () => true,
  });
  ask(desk, "per_1");
  desk.replied("ses_ours", "per_1");
  release(true);
  await clock.elapse(20_000);
  expect(replies).toEqual([]);
  expect(closed[0]).toMatchObject({ result: "confirmed", detail: "replied event" });
});

test("siblings settled by one reject's cascade are noticed, each closed once", async () => {
  const { desk, closed, clock } = bench({ policy: "deny" });
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

test("event and list together make one reply", async () => {
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
  expect(closed).toHaveLength(1);
  expect(desk.pending()).toBe(1);
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
  expect(unresolved).toEqual([
    "a permission request could not be handled: Error: GET /session/:id answered 500",
  ]);
});

test("nothing is answered after the end; what was pending is closed in our books, once", async () => {
  const { desk, replies, closed, clock } = bench();
  ask(desk, "per_1");
  await settled();
  desk.close();
  desk.close();
  ask(desk, "per_2");
  desk.replied("ses_ours", "per_1");
  await clock.elapse(20_000);
  expect(replies).toEqual(["per_1 once"]);
  expect(closed).toEqual([
    { request: "per_1", session: "ses_ours", result: "closed_by_end", detail: "the turn ended" },
  ]);
});

test("an end while a request's ancestry is looked up: it gets no reply", async () => {
  let release: (isOurs: boolean) => void = () => undefined;
  const { desk, replies, asked, clock } = bench({
    isOurs: () =>
      new Promise((resolve) => {
        release = resolve;
      }),
  });
  ask(desk, "per_1");
  desk.close();
  release(true);
  await clock.elapse(1000);
  expect([replies, asked]).toEqual([[], []]);
});

test("an id that can't be put into a path or a record is unresolved and never sent", async () => {
  const { desk, replies, unresolved, clock } = bench();
  ask(desk, "per\n1");
  ask(desk, "x".repeat(300));
  await clock.elapse(0);
  expect(replies).toEqual([]);
  expect(unresolved).toHaveLength(2);
});

test("too many requests in one turn are unresolved", async () => {
  const { desk, unresolved, clock } = bench({ isOurs: async () => false });
  for (let number = 0; number <= 10_000; number += 1) ask(desk, `per_${number}`);
  await clock.elapse(0);
  expect(unresolved).toEqual(["more than 10000 permission requests in one turn"]);
});
