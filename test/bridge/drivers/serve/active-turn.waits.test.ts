// What an active turn waits for, and for how long: its provider, its last word, its children, a session's ancestry.
import { expect, test } from "vitest";
import { on } from "./native.ts";
import { begun, finished, R, turnBench } from "./turn-bench.ts";

const retry = (message = "quota exceeded", session = R, attempt = 1) =>
  on.status(session, "retry", { attempt, message, next: 86_400_000 });

const WAIT_MS = 300_000;

test("P19: a wait for the provider has a limit of its own, and the report names the provider's message", async () => {
  const { take, clock, of } = turnBench();
  await take(...begun(), retry("quota exceeded"));
  expect(of("waiting")).toMatchObject([{ reason: "quota exceeded", nextAt: 86_400_000 }]);
  await clock.elapse(WAIT_MS - 1);
  expect(of("provider_late")).toEqual([]);
  await clock.elapse(1);
  expect(of("provider_late")).toMatchObject([
    { reason: "quota exceeded", evidence: { what: "provider_late", source: "bridge" } },
  ]);
  await clock.elapse(WAIT_MS * 3);
  expect(of("provider_late")).toHaveLength(1);
});

test("P19: neither further waits, nor `busy` between them, nor heartbeats, nor other sessions' work extend it", async () => {
  const { take, clock, of } = turnBench();
  await take(...begun(), retry());
  for (let at = 0; at < WAIT_MS - 10_000; at += 10_000) {
    await clock.elapse(10_000);
    await take(
      on.busy(R),
      retry("still no quota", R, at),
      on.delta("ses_other", "m9", "p9", "theirs"),
      on.tool("ses_other", "m9", "call_9", "running"),
    );
  }
  await clock.elapse(10_000);
  expect(of("provider_late")).toMatchObject([{ reason: "quota exceeded" }]);
});

test.each([
  ["text", [on.text(R, "m1", "p1", ""), on.delta(R, "m1", "p1", "it goes on")]],
  ["a tool", [on.tool(R, "m1", "call_1", "running")]],
  ["reasoning", [on.part(R, "m1", { id: "p1", type: "reasoning", text: "" }), on.delta(R, "m1", "p1", "hm")]],
])("P19: progress (%s) ends the wait; the next one is counted anew", async (_what, progress) => {
  const { take, clock, of } = turnBench();
  await take(...begun(), retry());
  await clock.elapse(WAIT_MS - 1000);
  await take(...progress);
  await clock.elapse(WAIT_MS * 2);
  expect(of("provider_late")).toEqual([]);
  await take(retry("and again"));
  await clock.elapse(WAIT_MS);
  expect(of("provider_late")).toMatchObject([{ reason: "and again" }]);
});

test("P19: a child that waits for its provider is bounded like the root, and told as waiting", async () => {
  const { take, clock, of } = turnBench();
  await take(...begun(), on.created("ses_c", R), on.busy("ses_c"), retry("child's quota", "ses_c"));
  expect(of("waiting")).toMatchObject([{ reason: "child's quota" }]);
  await clock.elapse(WAIT_MS);
  expect(of("provider_late")).toMatchObject([{ reason: "child's quota" }]);
});

test("P19: one child's progress does not end its sibling's wait; the sibling's own end does", async () => {
  const { take, clock, of } = turnBench();
  const children = ["ses_a", "ses_b"].flatMap((child) => [on.created(child, R), on.busy(child)]);
  await take(...begun(), ...children, retry("a's quota", "ses_a"), retry("b's quota", "ses_b"));
  await take(on.delta("ses_b", "m5", "p5", "text"), on.tool("ses_b", "m5", "call_5", "running"));
  await take(on.tool(R, "m1", "call_1", "completed"));
  await clock.elapse(WAIT_MS);
  expect(of("provider_late")).toMatchObject([{ reason: "a's quota" }]);
  await take(retry("a's quota, again", "ses_a"), on.idle("ses_a"));
  await clock.elapse(WAIT_MS * 2);
  expect(of("provider_late")).toHaveLength(1);
});

test("P19: a stranger's wait is nobody's", async () => {
  const { take, clock, seen } = turnBench();
  await take(...begun());
  const before = seen.length;
  await take(retry("theirs", "ses_other"));
  await clock.elapse(WAIT_MS * 2);
  expect(seen.length).toBe(before);
});

test("P19: the progress that was waiting to be read when the process froze counts (law 13)", async () => {
  const { take, clock, of, turn } = turnBench();
  await take(...begun(), on.text(R, "m1", "p1", ""), retry());
  clock.freeze(WAIT_MS + 5000, () => turn.take(on.tool(R, "m1", "call_1", "running")));
  await clock.elapse(1000);
  expect(of("provider_late")).toEqual([]);
});

test("a wait that the turn's end overtakes is silent", async () => {
  const { take, clock, of } = turnBench();
  await take(...begun(), retry());
  await take(on.busy(R), ...finished());
  await clock.elapse(WAIT_MS * 2);
  expect(of("provider_late")).toEqual([]);
  expect(of("native_end")).toHaveLength(1);
});

test("Kilo offline: tried again with back-off, told as waiting, and then given up, within the limit of the wait", async () => {
  const { take, clock, of, api } = turnBench({ isKilo: true });
  await take(...begun(true));
  for (let number = 1; number <= 6; number += 1) {
    const asked = api.park(R, `net_${number}`, "connection refused");
    await take(asked, on.status(R, "offline", { requestID: `net_${number}`, message: "connection refused" }));
    await clock.elapse(16_000);
  }
  expect(api.replies()).toEqual([
    "network net_1 retry",
    "network net_2 retry",
    "network net_3 retry",
    "network net_4 retry",
    "network net_5 retry",
    "network net_6 reject",
  ]);
  await take(on.error(R, "APIError", "refused"), ...finished(true));
  expect(of("native_end")).toHaveLength(1);
  await clock.elapse(WAIT_MS);
  expect(of("provider_late")).toEqual([]);
});

test("Kilo offline, and the turn ends while a try is due: nothing is sent any more", async () => {
  const { take, clock, api, turn } = turnBench({ isKilo: true });
  await take(...begun(true), api.park(R, "net_1"));
  turn.close();
  await clock.elapse(60_000);
  expect(api.replies()).toEqual([]);
});

test("Kilo: an idle with no closed bracket is no end, and overdue after its limit", async () => {
  const { take, clock, of } = turnBench({ isKilo: true });
  const events = finished(true);
  await take(...begun(true), ...events.slice(0, -1));
  await clock.elapse(4999);
  expect([of("native_end"), of("end_overdue")]).toEqual([[], []]);
  await clock.elapse(1);
  expect(of("end_overdue")).toMatchObject([{ error: null, evidence: { detail: "idle, not final" } }]);
});

test("P16: an error and no idle is overdue after its limit, once, with the error; work that goes on takes it back", async () => {
  const { take, clock, of } = turnBench();
  await take(...begun(), on.error(R, "ContextOverflowError", "too long"));
  await clock.elapse(4000);
  await take(on.busy(R));
  await clock.elapse(60_000);
  expect(of("end_overdue")).toEqual([]);
  await take(on.error(R, "UnknownError", "Agent not found"));
  await clock.elapse(60_000);
  expect(of("end_overdue")).toMatchObject([{ error: { name: "UnknownError", message: "Agent not found" } }]);
});

test("P16: a final end that was waiting to be read when the process froze is the end, not an overdue one (law 13)", async () => {
  const { take, clock, of, turn } = turnBench();
  await take(...begun(), on.error(R, "MessageAbortedError"), on.idle(R));
  clock.freeze(60_000, () => {
    turn.take(on.assistant(R, "m1", { parent: "msg_own", error: "MessageAbortedError", done: true }));
    turn.take(on.idle(R));
  });
  await clock.elapse(1000);
  expect(of("end_overdue")).toEqual([]);
  expect(of("native_end")).toMatchObject([{ status: "aborted" }]);
});

test("children at work hold the end without being overdue; one that the server calls idle lets go", async () => {
  const { take, clock, of, api } = turnBench();
  api.busy = ["ses_c"];
  await take(...begun(), on.created("ses_c", R), on.busy("ses_c"), ...finished());
  await clock.elapse(60_000);
  expect([of("native_end"), of("end_overdue")]).toEqual([[], []]);
  api.busy = [];
  await clock.elapse(5000);
  expect(of("native_end")).toMatchObject([{ status: "completed" }]);
});

test("P8: a request from a session that no event announced is looked up, and all between it and the root is ours", async () => {
  const { take, clock, of, api, turn } = turnBench();
  api.parents.set("ses_c", R).set("ses_g", "ses_c");
  await take(...begun(), api.raise("ses_g", "per_1"));
  expect(api.replies()).toEqual(["permission per_1 once"]);
  expect(of("permission_asked")[0]?.ancestry).toEqual([
    { session: "ses_g", title: "task ses_g" },
    { session: "ses_c", title: "task ses_c" },
    { session: R, title: "" },
  ]);
  expect([turn.isOurs("ses_g"), turn.isOurs("ses_c")]).toEqual([true, true]);
  // Found sessions are the turn's: they hold its end until they are quiet.
  api.busy = ["ses_c", "ses_g"];
  await take(...finished());
  expect(of("native_end")).toEqual([]);
  await take(on.idle("ses_g"), on.idle("ses_c"));
  expect(of("native_end")).toHaveLength(1);
  await clock.elapse(0);
});

test("P8: a look-up that finds nothing yet is repeated, bounded; then it is a stranger's", async () => {
  const { take, clock, of, api } = turnBench();
  await take(...begun(), api.raise("ses_c", "per_1"));
  await clock.elapse(150);
  expect(api.replies()).toEqual([]);
  api.parents.set("ses_c", R);
  await clock.elapse(200);
  expect(api.replies()).toEqual(["permission per_1 once"]);
  await take(api.raise("ses_x", "per_2"));
  await clock.elapse(10_000);
  expect(api.calls.filter((line) => line === "session ses_x")).toHaveLength(4);
  expect(of("permission_asked")).toHaveLength(1);
});

test("P8: a look-up that fails each time leaves nobody waiting: unresolved", async () => {
  const { take, clock, of, api } = turnBench();
  api.broken.add("session");
  await take(...begun(), api.raise("ses_c", "per_1"));
  await clock.elapse(5000);
  expect(of("permission_unresolved")).toMatchObject([{ code: "PERMISSION_UNRESOLVED" }]);
  expect(api.replies()).toEqual([]);
});

test("P7: parents in a circle, and one without end, are strangers after a bounded walk", async () => {
  const { take, clock, api } = turnBench();
  api.parents.set("ses_a", "ses_b").set("ses_b", "ses_a");
  for (let depth = 0; depth < 200; depth += 1) api.parents.set(`ses_d${depth}`, `ses_d${depth + 1}`);
  await take(...begun(), api.raise("ses_a", "per_1"), api.raise("ses_d0", "per_2"));
  await clock.elapse(10_000);
  expect(api.replies()).toEqual([]);
  expect(api.calls.length).toBeLessThan(400);
});

test("P12: what is pending when the turn's own event comes is handled, and its event makes no second reply", async () => {
  const { take, clock, api, of } = turnBench();
  const asked = api.raise("ses_c", "per_1");
  api.parents.set("ses_c", R);
  api.ask(R, "que_1");
  await take(...begun());
  await take(asked);
  await clock.elapse(2000);
  expect(api.replies()).toEqual(["permission per_1 once"]);
  expect(of("question_asked")).toMatchObject([{ question: { request: "que_1", session: R } }]);
});

test("nothing is answered after the settlement: requests that come behind it get no reply", async () => {
  const { take, clock, api, of } = turnBench();
  await take(...begun(), ...finished());
  await take(api.raise(R, "per_1"), api.ask(R, "que_1"));
  await clock.elapse(60_000);
  expect(api.replies()).toEqual([]);
  expect(of("permission_asked")).toEqual([]);
});

test("what is open at the settlement is closed before it is reported", async () => {
  const { take, seen, api } = turnBench({ policy: { default: "ask" } });
  await take(...begun(), api.raise(R, "per_1"), api.ask(R, "que_1"));
  await take(...finished());
  const kinds = seen.map(({ kind }) => kind);
  expect(kinds.slice(-3)).toEqual(["permission_closed", "question_closed", "native_end"]);
});

test("after its close a turn says nothing and answers nothing", async () => {
  const { take, clock, seen, api, turn } = turnBench({ policy: { default: "ask" } });
  await take(...begun(), retry(), on.error(R, "X"), api.raise(R, "per_1"));
  turn.close();
  const count = seen.length;
  await take(on.busy(R), ...finished(), api.raise(R, "per_2"));
  await clock.elapse(600_000);
  expect(seen.length).toBe(count);
  expect(api.replies()).toEqual([]);
});
