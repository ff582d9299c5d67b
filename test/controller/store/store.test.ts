// The store's contract, as every store has to keep it; postgres/suite.test.ts runs it on the other one.
import { expect, test } from "vitest";
import { hostSettlement } from "../../../controller/host-settlement.ts";
import { OPTIONS } from "../../support/member-options.ts";
import { AT, CONTAINER, SETTLEMENT } from "../../support/samples.ts";
import { context, delivered, ended, numbered, session, simpleRig, storeRig } from "./rig.ts";

const UNKNOWN = hostSettlement({
  outcome: "unknown",
  code: "DELIVERY_UNKNOWN",
  reason: "gone",
  what: "sandbox_gone",
  at: AT,
});

test("a sandbox begins stopped, unbound, in its first generation; a second of its id is refused", () => {
  const { store } = storeRig();
  store.createSandbox({ id: "box", kind: "process", directory: "/d" });
  expect(store.sandbox("box")).toEqual({
    id: "box",
    kind: "process",
    directory: "/d",
    generation: 1,
    container: null,
    wanted: "stopped",
    unready: null,
    journal_id: null,
    applied: 0,
    created_at: AT,
  });
  expect(() => store.createSandbox({ id: "box", kind: "docker", directory: "/e" })).toThrow(
    expect.objectContaining({ code: "SANDBOX_EXISTS" }),
  );
  expect(store.sandboxes()).toHaveLength(1);
  expect(store.sandbox("none")).toBeNull();
});

test("binding, wishes and readiness are kept", () => {
  const rig = storeRig();
  rig.store.createSandbox({ id: "box", kind: "docker", directory: "/d" });
  rig.store.bindContainer("box", { ...CONTAINER, generation: 2 });
  rig.store.setWanted("box", "running");
  rig.store.setUnready("box", ["one reason", "another"]);
  rig.reopen();
  expect(rig.store.sandbox("box")).toMatchObject({
    container: { ...CONTAINER, generation: 2 },
    generation: 2,
    wanted: "running",
    unready: "one reason; another",
  });
  rig.store.setUnready("box", null);
  expect(rig.store.sandbox("box")?.unready).toBeNull();
});

test("a member begins without turns and locator; a second of its id is refused", () => {
  const { store } = simpleRig();
  expect(store.member("m-1")).toMatchObject({
    sandbox: "box",
    cli: "opencode",
    submissions: 0,
    settled_turns: 0,
    locator: null,
    pending_locator: null,
  });
  const again = () =>
    store.createMember({ ...(store.member("m-1") as NonNullable<ReturnType<typeof store.member>>) });
  expect(again).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
  expect(store.membersOf("box").map(({ id }) => id)).toEqual(["m-1"]);
  expect(store.membersOf("none")).toEqual([]);
});

test("a member of no sandbox can't be made", () => {
  const rig = storeRig();
  expect(() => rig.member("m-1", "none")).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  expect(rig.store.member("m-1")).toBeNull();
});

test("an admitted turn has its number, and the member has no second one until it ended", () => {
  const { store } = simpleRig();
  const { turn, member } = store.admit({ id: "t-1", member: "m-1", textSha256: "ab", textBytes: 2 });
  expect(turn).toEqual({
    id: "t-1",
    member: "m-1",
    number: 1,
    state: "admitted",
    text_sha256: "ab",
    text_bytes: 2,
    settlement: null,
    submitted_at: AT,
    ended_at: null,
    launch: null,
    queued_ms: null,
  });
  expect(member.submissions).toBe(1);
  expect(() => store.admit({ id: "t-2", member: "m-1", textSha256: "ab", textBytes: 2 })).toThrow(
    expect.objectContaining({ code: "MEMBER_BUSY" }),
  );
  expect(store.member("m-1")?.submissions).toBe(1);
  expect(store.openTurnsOf("box").map(({ id }) => id)).toEqual(["t-1"]);
});

test("numbers rise by one and are never given twice, whatever became of their turns", () => {
  const rig = simpleRig();
  for (const [id, outcome] of [
    ["t-1", "completed"],
    ["t-2", "not_sent"],
    ["t-3", "failed"],
  ] as const) {
    rig.admit(id);
    rig.store.end(id, { ...SETTLEMENT, outcome, settled: outcome === "completed" });
  }
  rig.reopen();
  rig.admit("t-4");
  expect(rig.store.turnsOf("m-1", 10).map(({ id, number }) => [id, number])).toEqual([
    ["t-4", 4],
    ["t-3", 3],
    ["t-2", 2],
    ["t-1", 1],
  ]);
  expect(rig.store.turnsOf("m-1", 2)).toHaveLength(2);
});

test("S18: a turn's id is given once, and a member that is not there has no turns", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.store.end("t-1", { ...SETTLEMENT, outcome: "not_sent", settled: false });
  expect(() => rig.admit("t-1")).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
  expect(() => rig.admit("t-2", "none")).toThrow(expect.objectContaining({ code: "MEMBER_UNKNOWN" }));
});

test("after an unknown turn the member takes no new one until somebody has looked at it", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  expect(rig.store.end("t-1", UNKNOWN)).toBe(true);
  expect(rig.store.turn("t-1")).toMatchObject({ state: "unknown", settlement: UNKNOWN, ended_at: AT });
  const refused = expect.objectContaining({ code: "INSPECTION_NEEDED", details: { turn: "t-1" } });
  expect(() => rig.admit("t-2")).toThrow(refused);
  rig.reopen();
  expect(() => rig.admit("t-2")).toThrow(refused);
  expect(rig.store.recordInspection("t-1", "seen")).toEqual({ turn: "t-1", at: AT, note: "seen" });
  expect(rig.store.turn("t-1")).toMatchObject({ state: "unknown", settlement: UNKNOWN, ended_at: AT });
  rig.reopen();
  expect(rig.store.inspectionOf("t-1")?.note).toBe("seen");
  rig.admit("t-2");
  expect(rig.store.member("m-1")?.submissions).toBe(2);
});

test("a member's options change for what comes, and stay changed", () => {
  const rig = simpleRig();
  rig.store.setMemberOptions("m-1", { ...OPTIONS, background: true });
  rig.reopen();
  expect(rig.store.member("m-1")?.options).toEqual({ ...OPTIONS, background: true });
  expect(() => rig.store.setMemberOptions("none", OPTIONS)).toThrow(
    expect.objectContaining({ code: "MEMBER_UNKNOWN" }),
  );
});

test("a member with an unknown turn must be proven, until a context was: that of another turn, and no LIVE one", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.apply([ended("t-1")]);
  rig.admit("t-2");
  expect(rig.store.member("m-1")?.must_prove).toBeNull();
  rig.store.end("t-2", UNKNOWN);
  expect(rig.store.member("m-1")?.must_prove).toBe("turn t-2 is unknown");
  rig.apply([context("t-2", "RESTORED", "ses_1")]);
  expect(rig.store.member("m-1")?.must_prove).toBe("turn t-2 is unknown");
  rig.store.recordInspection("t-2", "seen");
  rig.admit("t-3");
  for (const status of ["LIVE", "LOST"] as const) {
    rig.apply([context("t-3", status, "ses_1")]);
    expect(rig.store.member("m-1")?.must_prove).toBe("turn t-2 is unknown");
  }
  rig.apply([context("t-3", "RESTORED", "ses_1")]);
  expect(rig.store.member("m-1")?.must_prove).toBeNull();
});

test("a turn ends once: a later end changes nothing", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  expect(rig.store.end("t-1", SETTLEMENT)).toBe(true);
  expect(rig.store.end("t-1", UNKNOWN)).toBe(false);
  expect(rig.store.turn("t-1")).toMatchObject({ state: "settled", settlement: SETTLEMENT });
  expect(rig.store.end("none", UNKNOWN)).toBe(false);
});

test("events take effect once and in order, also when they come again", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  const entries = numbered([context("t-1", "NEW", "ses_1"), delivered("t-1"), ended("t-1")]);
  const first = rig.store.apply("box", entries.slice(0, 2));
  expect(first.events.map(({ seq }) => seq)).toEqual([1, 2]);
  expect(first.settled).toEqual([]);
  expect(rig.store.turn("t-1")?.state).toBe("delivered");
  const second = rig.store.apply("box", entries);
  expect(second.events.map(({ seq }) => seq)).toEqual([3]);
  expect(second.settled).toEqual([{ turn: "t-1", settlement: SETTLEMENT }]);
  rig.reopen();
  expect(rig.store.apply("box", entries)).toEqual({ events: [], settled: [], conflicts: [] });
  expect(rig.store.member("m-1")?.settled_turns).toBe(1);
  expect(rig.store.sandbox("box")?.applied).toBe(3);
  expect(rig.store.eventsOf("t-1")).toEqual(entries.slice(0, 2));
});

test("a gap is refused, and nothing of its batch takes effect", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  const [first, , third] = numbered([context("t-1", "NEW", "ses_1"), delivered("t-1"), ended("t-1")]);
  expect(() =>
    rig.store.apply(
      "box",
      [first, third].filter((entry) => entry !== undefined),
    ),
  ).toThrow(expect.objectContaining({ code: "FRAME_INVALID" }));
  expect(rig.store.sandbox("box")?.applied).toBe(0);
  expect(rig.store.eventsOf("t-1")).toEqual([]);
  expect(rig.store.turn("t-1")?.state).toBe("admitted");
});

test("a turn that the host ended itself is not changed by the bridge's later word", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.store.end("t-1", UNKNOWN);
  const applied = rig.apply([delivered("t-1"), ended("t-1")]);
  expect(applied.settled).toEqual([]);
  expect(rig.store.turn("t-1")).toMatchObject({ state: "unknown", settlement: UNKNOWN });
  expect(rig.store.member("m-1")).toMatchObject({ settled_turns: 0, locator: null });
  // Kept for whoever looks at the turn.
  expect(rig.store.eventsOf("t-1").map(({ event }) => event.type)).toEqual(["turn.delivered", "turn.ended"]);
});

test("following the same journal says how far it was applied", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.apply([delivered("t-1")]);
  const head = { journalId: "journal-box", epoch: 4, seq: 9, acked: 0 };
  expect(rig.store.follow("box", head)).toEqual({ applied: 1, lost: [] });
  expect(rig.store.turn("t-1")?.state).toBe("delivered");
});

test("a journal of another id leaves the open turns unknown, and is followed from its start", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  rig.admit("t-2", "m-2");
  rig.apply([delivered("t-1")]);
  const { applied, lost } = rig.store.follow("box", { journalId: "another", epoch: 1, seq: 7, acked: 0 });
  expect(applied).toBe(0);
  expect(lost.map(({ turn }) => turn).sort()).toEqual(["t-1", "t-2"]);
  expect(rig.store.turn("t-1")).toMatchObject({ state: "unknown", settlement: { outcome: "unknown" } });
  expect(rig.store.turn("t-1")?.settlement?.evidence[0]?.what).toBe("journal_lost");
  expect(rig.store.follow("box", { journalId: "another", epoch: 1, seq: 7, acked: 0 })).toEqual({
    applied: 0,
    lost: [],
  });
});

test("a head behind what was applied means a rollback: open turns are unknown, and it goes on from the head", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  const turn = { type: "turn.accepted", turn: "t-1", member: "m-1", number: 1 } as const;
  rig.apply([turn, delivered("t-1"), delivered("t-1")]);
  const { applied, lost } = rig.store.follow("box", { journalId: "journal-box", epoch: 1, seq: 1, acked: 0 });
  expect(applied).toBe(1);
  expect(lost.map(({ turn }) => turn)).toEqual(["t-1"]);
  // The same numbers come again with other events, of the very same turn.
  rig.apply([delivered("t-1"), ended("t-1")]);
  expect(rig.store.sandbox("box")?.applied).toBe(3);
  expect(rig.store.turn("t-1")?.state).toBe("unknown");
});

test("a store that is older than what the bridge has dropped goes on from there: open turns are unknown, members proven", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  rig.admit("t-2", "m-2");
  rig.apply([delivered("t-1")]);
  const journal = { journalId: "journal-box", epoch: 4, seq: 30, acked: 20 };
  const { applied, lost } = rig.store.follow("box", journal, new Set(["t-2"]));
  expect(applied).toBe(20);
  expect(lost.map(({ turn }) => turn)).toEqual(["t-1"]);
  expect(rig.store.turn("t-1")?.settlement?.evidence[0]?.what).toBe("store_set_back");
  expect(rig.store.turn("t-2")?.state).toBe("admitted");
  expect(rig.store.member("m-1")?.must_prove).toBe("turn t-1 is unknown");
  expect(rig.store.member("m-2")?.must_prove).toMatch(/^the store is older/);
  expect(rig.store.follow("box", journal)).toEqual({ applied: 20, lost: [] });
});

test("events of turns and members that the store does not have are passed over; another sandbox's are refused", () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("n-1", "other");
  rig.admit("u-1", "n-1");
  const process = { type: "member.process", processGeneration: 1, state: "ready", detail: "" } as const;
  rig.apply([ended("t-9"), delivered("t-9"), ended("x-1", {}, "m-9"), { ...process, member: "m-9" }]);
  expect(rig.store.sandbox("box")?.applied).toBe(4);
  expect(rig.store.turn("t-9")).toBeNull();
  expect(rig.store.eventsOf("t-9")).toEqual([]);
  expect(rig.store.member("m-1")).toMatchObject({
    settled_turns: 0,
    must_prove: "a turn that the store does not know came before",
  });
  const foreign = [
    ended("u-1", {}, "n-1"),
    ended("u-1"),
    ended("t-9", {}, "n-1"),
    { ...process, member: "n-1" },
  ];
  for (const event of foreign)
    expect(() => rig.apply([event])).toThrow(expect.objectContaining({ code: "FRAME_INVALID" }));
  expect(rig.store.sandbox("box")?.applied).toBe(4);
});

test("numbers that a bridge has taken are gone on from; those of others, and from nowhere, are not taken over", () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("n-1", "other");
  const learn = (member: string, number: number) => rig.store.learnNumbers("box", [{ member, number }]);
  expect(learn("m-1", 0)).toEqual([]);
  expect(learn("m-1", 5)).toEqual(["m-1"]);
  expect(learn("m-1", 5)).toEqual([]);
  expect(learn("n-1", 5)).toEqual([]);
  expect(learn("none", 5)).toEqual([]);
  expect(() => learn("m-1", Number.MAX_SAFE_INTEGER)).toThrow(
    expect.objectContaining({ code: "FRAME_INVALID" }),
  );
  expect(rig.store.member("m-1")).toMatchObject({
    submissions: 5,
    must_prove: "the store is older than the sandbox",
  });
  expect(rig.store.member("n-1")?.submissions).toBe(0);
});

test("the fence is raised above what a sandbox has seen, and stays so; not beyond reason", () => {
  const rig = simpleRig();
  expect(rig.store.fenceOf("box")).toBeLessThan(8);
  rig.store.raiseFence("box", 8);
  expect(rig.store.fenceOf("box")).toBe(9);
  rig.admit("t-1");
  expect(() => rig.store.raiseFence("box", Number.MAX_SAFE_INTEGER)).toThrow(
    expect.objectContaining({ code: "FENCED" }),
  );
  rig.reopen();
  expect(rig.store.fenceOf("box")).toBeGreaterThan(9);
});

test("a turn that was not sent yet outlives the loss of a journal", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  rig.admit("t-2", "m-2");
  const head = { journalId: "another", epoch: 1, seq: 0, acked: 0 };
  const { lost } = rig.store.follow("box", head, new Set(["t-2"]));
  expect(lost.map(({ turn }) => turn)).toEqual(["t-1"]);
  expect(rig.store.turn("t-2")?.state).toBe("admitted");
});

test("each saved locator is in the member's history", () => {
  const rig = simpleRig();
  for (const id of ["t-1", "t-2"]) {
    rig.admit(id);
    rig.apply([ended(id, { session: session("ses_1") })]);
  }
  const history = rig.store.locatorHistory("m-1");
  expect(history.map(({ settledTurns }) => settledTurns)).toEqual([1, 2]);
  expect(history.at(-1)).toEqual(rig.store.member("m-1")?.locator);
});

test("sandboxes and members come in the order in which they were made, whatever their names and the clock say", () => {
  const rig = storeRig();
  for (const id of ["z", "a", "m"]) rig.box(id);
  for (const id of ["m-9", "m-1", "m-5"]) rig.member(id, "a");
  rig.store.setWanted("z", "running");
  rig.store.setMemberOptions("m-9", { ...OPTIONS, background: true });
  expect(rig.store.sandboxes().map(({ id }) => id)).toEqual(["z", "a", "m"]);
  expect(rig.store.membersOf("a").map(({ id }) => id)).toEqual(["m-9", "m-1", "m-5"]);
});
