import { join } from "node:path";
import { expect, test } from "vitest";
import { UNKNOWN_USAGE } from "../../../controller/relay/call-usage.ts";
import type { ModelCall } from "../../../controller/relay/model-call.ts";
import { checkStore } from "../../../controller/store/check.ts";
import { CALLS_KEPT, CHAINS_KEPT } from "../../../controller/store/model-calls.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { STORE_FILE } from "../../../controller/store/sqlite.ts";
import { AT } from "../../support/samples.ts";
import { CALL, chatBody, digestOf } from "../relay/calls.ts";
import { type Rig, simpleRig } from "./rig.ts";

let calls = 0;

function record(
  rig: Rig,
  changes: Partial<ModelCall> = {},
  digest: Parameters<Rig["store"]["calls"]["record"]>[1] = null,
) {
  calls += 1;
  return rig.store.calls.record({ ...CALL, id: `call-${calls}`, ...changes }, digest);
}

/** Records a request with these texts; its verdict. */
function verdict(
  rig: Rig,
  texts: string[],
  changes: Partial<ModelCall> = {},
  headers?: Record<string, string>,
) {
  const { prefix } = record(rig, changes, digestOf(chatBody(texts), headers));
  return prefix?.verdict ?? null;
}

test("a call is kept as it was recorded, over a restart, and given out newest first", () => {
  const rig = simpleRig();
  const first = record(rig);
  const second = record(rig, { turn: null, usage: UNKNOWN_USAGE, status: 503, outcome: "cut" });
  expect(first).toEqual({ ...CALL, id: first.id });
  rig.reopen();
  expect(rig.store.calls.list({ member: "m-1" }, 10)).toEqual([second, first]);
  expect(rig.store.calls.list({ member: "m-1" }, 1)).toEqual([second]);
  expect(rig.store.calls.list({ turn: "t-1" }, 10)).toEqual([first]);
  expect(rig.store.calls.list({ sandbox: "box" }, 10)).toEqual([second, first]);
  expect(rig.store.calls.list({ sandbox: "other" }, 10)).toEqual([]);
});

test("several are kept together, or none of them", () => {
  const { store } = simpleRig();
  const of = (id: string, changes: Partial<ModelCall> = {}) => ({
    call: { ...CALL, id, ...changes },
    digest: null,
  });
  store.calls.recordAll([of("a"), of("b")]);
  expect(() => store.calls.recordAll([of("c"), of("d", { totalMs: -1 })])).toThrow();
  expect(store.calls.list({ sandbox: "box" }, 10).map(({ id }) => id)).toEqual(["b", "a"]);
  expect(store.calls.sums({ sandbox: "box" }).calls).toBe(2);
});

test("the same id again changes nothing, and adds nothing", () => {
  const rig = simpleRig();
  const kept = record(rig, { id: "once" });
  expect(record(rig, { id: "once", totalMs: 9999 })).toEqual(kept);
  expect(rig.store.calls.list({ sandbox: "box" }, 10)).toEqual([kept]);
  expect(rig.store.calls.sums({ sandbox: "box" }).calls).toBe(1);
});

test("sums are of the turn, of the member with its turns, of the sandbox with its members", () => {
  const rig = simpleRig();
  record(rig);
  record(rig, { turn: "t-2" });
  record(rig, { turn: null });
  record(rig, { member: "m-2", turn: "t-3" });
  record(rig, { member: null, turn: null, outcome: "refused", status: 401, usage: UNKNOWN_USAGE });
  record(rig, { sandbox: "other", member: "n-1", turn: "t-4" });
  const count = (of: Parameters<Rig["store"]["calls"]["sums"]>[0]) => {
    const { calls: all, dueCalls, counters } = rig.store.calls.sums(of);
    return [all, dueCalls, counters.inputTokens.tokens];
  };
  expect(count({ turn: "t-1" })).toEqual([1, 1, 30]);
  expect(count({ member: "m-1" })).toEqual([3, 3, 90]);
  expect(count({ member: "m-2" })).toEqual([1, 1, 30]);
  expect(count({ sandbox: "box" })).toEqual([5, 4, 120]);
  expect(count({ turn: "none" })).toEqual([0, 0, 0]);
});

test("one unknown call makes the sums above it unknown, and no others", () => {
  const rig = simpleRig();
  record(rig);
  record(rig, { turn: "t-2", usage: UNKNOWN_USAGE });
  const tokens = (of: Parameters<Rig["store"]["calls"]["sums"]>[0]) =>
    rig.store.calls.sums(of).counters.inputTokens.tokens;
  expect([
    tokens({ turn: "t-1" }),
    tokens({ turn: "t-2" }),
    tokens({ member: "m-1" }),
    tokens({ sandbox: "box" }),
  ]).toEqual([30, null, null, null]);
});

test("a chain's next request is compared with the one before it, also over a restart and other turns", () => {
  const rig = simpleRig();
  expect(verdict(rig, ["a"])).toBeNull();
  expect(verdict(rig, ["a", "b", "c"])).toBe("equal");
  rig.reopen();
  expect(verdict(rig, ["a", "b", "c", "d"], { turn: "t-2" })).toBe("equal");
  expect(verdict(rig, ["a", "B", "c", "d"], { turn: null })).toBe("history");
  expect(rig.store.calls.sums({ member: "m-1" }).prefixes).toMatchObject({ equal: 2, history: 1 });
});

test("chains of other members, sessions and agents do not meet; requests without tools are none", () => {
  const rig = simpleRig();
  verdict(rig, ["a"]);
  expect(verdict(rig, ["x"], { member: "m-2" })).toBeNull();
  expect(verdict(rig, ["y"], {}, { "x-session-id": "ses_child" })).toBeNull();
  expect(record(rig, {}, digestOf(chatBody(["title"], { tools: [] }))).prefix).toBeNull();
  expect(verdict(rig, ["a", "b"])).toBe("equal");
});

test("without a session it is unknown to which chain a request belongs; what makes no answer is not compared", () => {
  const rig = simpleRig();
  expect(verdict(rig, ["a"], { nativeId: null }, {})).toBe("unknown");
  expect(verdict(rig, ["a"], { purpose: "count_tokens" })).toBeNull();
  expect(record(rig, {}, null).prefix).toBeNull();
  expect(verdict(rig, ["z"])).toBeNull();
});

test("a request that began before the last recorded one is no successor, and does not take its place", () => {
  const rig = simpleRig();
  verdict(rig, ["a"], { startedAt: AT + 10 });
  expect(verdict(rig, ["other"], { startedAt: AT })).toBeNull();
  expect(verdict(rig, ["a", "b"], { startedAt: AT + 20 })).toBe("equal");
});

test("of chains the longest unused goes, of each member for itself", () => {
  const rig = simpleRig();
  const session = (id: string) => ({ "x-session-id": id });
  verdict(rig, ["a"], { member: "m-2" });
  for (let at = 0; at < CHAINS_KEPT; at += 1) verdict(rig, ["a"], {}, session(`s-${at}`));
  expect(verdict(rig, ["a", "b"], {}, session("s-0"))).toBe("equal");
  verdict(rig, ["a"], {}, session("s-new"));
  expect(verdict(rig, ["a", "b"], {}, session("s-2"))).toBe("equal");
  expect(verdict(rig, ["a", "b"], {}, session("s-1"))).toBeNull();
  expect(verdict(rig, ["a", "b"], { member: "m-2" })).toBe("equal");
});

test("of an owner the newest calls are kept one by one, and the sums lose none", async () => {
  const rig = simpleRig();
  const others = [record(rig, { turn: null }), record(rig, { turn: "t-2" })];
  const extra = 3;
  for (let at = 0; at < CALLS_KEPT + extra; at += 1) record(rig, { startedAt: AT + at });
  const kept = rig.store.calls.list({ turn: "t-1" }, CALLS_KEPT * 2);
  expect(kept).toHaveLength(CALLS_KEPT);
  expect(kept.at(-1)?.startedAt).toBe(AT + extra);
  const sums = rig.store.calls.sums({ turn: "t-1" });
  expect(sums).toMatchObject({ calls: CALLS_KEPT + extra, knownCalls: CALLS_KEPT + extra });
  expect(sums.counters.inputTokens.tokens).toBe(30 * (CALLS_KEPT + extra));
  expect(rig.store.calls.list({ member: "m-1" }, CALLS_KEPT * 2)).toEqual(expect.arrayContaining(others));
  const [counted] = await rig.look("SELECT count(*) AS calls FROM model_calls");
  expect(Number(counted?.calls)).toBe(CALLS_KEPT + 2);
  if ("directory" in rig.place)
    expect(checkStore(join(rig.directory, STORE_FILE))).toMatchObject({ problems: [] });
}, 60_000);

test("what is no record of a call is refused, and leaves nothing", () => {
  const rig = simpleRig();
  expect(() => record(rig, { outcome: "fine" as "cut" })).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
  expect(rig.store.calls.sums({ sandbox: "box" }).calls).toBe(0);
});

test("a controller that lost the store records nothing", () => {
  const rig = simpleRig();
  const other = openStore({
    ...rig.place,
    takeOver: true,
    nowAt: () => AT,
    cliVersion: () => "1",
  });
  expect(() => record(rig)).toThrow(expect.objectContaining({ code: "FENCED" }));
  expect(other.calls.list({ sandbox: "box" }, 10)).toEqual([]);
  other.close();
});

test("no text of a request is anywhere in the store", async () => {
  const rig = simpleRig();
  verdict(rig, ["A-SECRET-OF-THE-USER", "AN-ANSWER"]);
  rig.store.close();
  const tables = ["model_calls", "call_sums", "request_chains"];
  const rows = (await Promise.all(tables.map((table) => rig.look(`SELECT * FROM ${table}`)))).flat();
  rig.reopen();
  const text = JSON.stringify(rows);
  expect(rows).toHaveLength(3);
  expect(text).not.toMatch(/SECRET|ANSWER|You are one|bash/);
});
