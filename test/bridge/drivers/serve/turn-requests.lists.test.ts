// Pending lists, the ghosts of an abort, and Kilo's question whether to try its provider again.
import { expect, test } from "vitest";
import { listPending } from "../../../../bridge/drivers/serve/turn-requests.ts";
import { on } from "./native.ts";
import { bench, code } from "./requests-bench.ts";

test("P12: what is pending already and was told by no event is handled: once, also when the event comes after all", async () => {
  const { requests, api, clock, of } = bench();
  const asked = api.raise("ses_c", "per_1");
  api.ask("ses_r", "que_1");
  await requests.catchUp();
  requests.take(asked);
  await requests.catchUp();
  await clock.elapse(0);
  expect(of("permission_asked")).toHaveLength(1);
  expect(of("question_asked")).toHaveLength(1);
  requests.answerQuestion("ses_r", "que_1", [["red"]]);
  await clock.elapse(5000);
  expect(api.replies()).toEqual(["permission per_1 once", `question que_1 [["red"]]`]);
});

test("P12: a request that is answered between its event and the list is not opened again by a stale list", async () => {
  const { requests, api, clock, of, say } = bench();
  await say(api.raise("ses_r", "per_1"));
  api.raise("ses_r", "per_1");
  await requests.catchUp();
  await clock.elapse(5000);
  expect(api.replies()).toEqual(["permission per_1 once"]);
  expect(of("permission_closed")).toHaveLength(1);
});

test("P12: of what is pending in the list, a stranger's gets no reply", async () => {
  const { requests, api, clock, seen } = bench();
  api.raise("ses_theirs", "per_1");
  api.ask("ses_theirs", "que_1");
  await requests.catchUp();
  await clock.elapse(60_000);
  expect(api.replies()).toEqual([]);
  expect(seen).toEqual([]);
});

test("a list that can't be read is a warning, and the stream goes on serving", async () => {
  const { requests, api, clock, warnings, unresolved, say } = bench();
  api.broken.add("list");
  await requests.catchUp();
  expect(warnings).toHaveLength(1);
  api.broken.clear();
  await say(api.raise("ses_r", "per_1"));
  await clock.elapse(2000);
  expect(api.replies()).toEqual(["permission per_1 once"]);
  expect(unresolved).toEqual([]);
});

test("ghosts, pending before the prompt, are never answered: not by event, not by list, not by the user", async () => {
  const { requests, api, clock, seen } = bench({ policy: { default: "ask" } });
  const asked = api.raise("ses_r", "per_ghost");
  const question = api.ask("ses_c", "que_ghost");
  requests.noteGhosts(await listPending(api, "/w", 1000));
  requests.take(asked);
  requests.take(question);
  await requests.catchUp();
  await clock.elapse(1000);
  const late = () => requests.answerPermission("ses_r", "per_ghost", "once");
  const lateToo = () => requests.answerQuestion("ses_c", "que_ghost", null);
  expect(late).toThrow(code("REQUEST_UNKNOWN"));
  expect(lateToo).toThrow(code("REQUEST_UNKNOWN"));
  // Somebody else's late reply to a ghost is told by an event, and moves nothing.
  requests.take(on.replied("ses_r", "per_ghost"));
  requests.take(on.questionRejected("ses_c", "que_ghost"));
  await clock.elapse(600_000);
  expect(api.replies()).toEqual([]);
  expect(seen).toEqual([]);
});

test("P15: a ghost of one session does not hide a request of another with the same id", async () => {
  const { requests, api, clock } = bench();
  api.raise("ses_c", "per_1");
  requests.noteGhosts(await listPending(api, "/w", 1000));
  requests.take(on.asked("ses_r", "per_1"));
  await clock.elapse(0);
  expect(api.replies()).toEqual(["permission per_1 once"]);
});

test("ghosts that can't be listed fail the gate: nothing may be sent then", async () => {
  const { api } = bench();
  api.broken.add("list");
  await expect(listPending(api, "/w", 1000)).rejects.toThrow("answered 500");
});

test("after the end nothing is answered, whatever is asked, listed or decided", async () => {
  const { requests, api, clock, of } = bench({ policy: { default: "ask" }, isKilo: true });
  requests.take(api.raise("ses_r", "per_1"));
  requests.take(api.ask("ses_r", "que_1"));
  requests.take(on.offline("ses_r", "net_1"));
  await clock.elapse(0);
  requests.close("the turn ended");
  expect(of("permission_closed")).toMatchObject([{ result: "closed_by_end", reply: null, by: null }]);
  expect(of("question_closed")).toMatchObject([{ result: "closed_by_end", reply: null, by: null }]);
  requests.take(api.raise("ses_r", "per_2"));
  requests.take(on.offline("ses_r", "net_2"));
  await requests.catchUp();
  const late = () => requests.answerPermission("ses_r", "per_1", "once");
  expect(late).toThrow(code("REQUEST_CLOSED"));
  await clock.elapse(600_000);
  expect(api.replies()).toEqual([]);
  expect(of("permission_asked")).toHaveLength(1);
});

const WAITS_MS = [1000, 2000, 4000, 8000, 16_000];

test("a provider out of reach is tried again after growing waits, a bounded number of times, and then given up", async () => {
  const { requests, api, clock, of } = bench({ isKilo: true });
  for (const [index, waitMs] of WAITS_MS.entries()) {
    const id = `net_${index}`;
    const askedAt = clock.nowAt();
    requests.take(api.park("ses_r", id, "connection refused"));
    await clock.elapse(waitMs - 1);
    expect(of("waiting").at(-1)).toEqual({
      kind: "waiting",
      reason: "connection refused",
      attempt: index + 1,
      nextAt: askedAt + waitMs,
    });
    expect(api.replies()).toHaveLength(index);
    await clock.elapse(1);
    expect(api.replies().at(-1)).toBe(`network ${id} retry`);
  }
  requests.take(api.park("ses_c", "net_last"));
  await clock.elapse(0);
  expect(api.replies().at(-1)).toBe("network net_last reject");
  await clock.elapse(60_000);
  expect(api.replies()).toHaveLength(WAITS_MS.length + 1);
});

test("P7: a stranger's provider, and an event that comes twice, use up none of our tries", async () => {
  const { requests, api, clock } = bench({ isKilo: true });
  for (let count = 0; count < 10; count += 1) requests.take(on.offline("ses_theirs", `net_their_${count}`));
  for (let count = 0; count < 10; count += 1) requests.take(api.park("ses_r", "net_1"));
  await clock.elapse(999);
  expect(api.replies()).toEqual([]);
  await clock.elapse(1);
  expect(api.replies()).toEqual(["network net_1 retry"]);
});

test("a provider that cannot be tried again is unresolved, with the CLI's call named", async () => {
  const { requests, api, clock, unresolved } = bench({ isKilo: true });
  api.broken.add("network");
  requests.take(api.park("ses_r", "net_1"));
  await clock.elapse(60_000);
  expect(unresolved).toHaveLength(1);
  expect(unresolved[0]).toMatch(/^NATIVE_FAILED POST \/network\/:id: /);
});

test("a CLI that has no such request is not answered one, nor is it told as waiting", async () => {
  const { requests, api, clock, seen } = bench({ isKilo: false });
  expect(requests.take(on.offline("ses_r", "net_1"))).toBe(true);
  await clock.elapse(60_000);
  expect(api.replies()).toEqual([]);
  expect(seen).toEqual([]);
});
