import { expect, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import type { ControlEvent } from "../../../protocol/events.ts";
import { AT, EVENTS, SETTLEMENT } from "../../support/samples.ts";
import { context, delivered, ended, type Rig, session, simpleRig, storeRig } from "./rig.ts";

/** A column of the member as it is kept, seen by another connection. */
async function locatorKept(rig: Rig, member = "m-1", column = "locator"): Promise<unknown> {
  const [row] = await rig.look(`SELECT ${column} AS text FROM members WHERE id = '${member}'`);
  return row?.text;
}

const settleTurn = (rig: Rig, id: string, nativeId = "ses_1") => {
  rig.admit(id);
  return rig.apply([context(id, "NEW", nativeId), ended(id, { session: session(nativeId) })]);
};

test("an admitted turn is on the disk when admit returns", async () => {
  const rig = simpleRig();
  rig.admit("t-1");
  expect(await rig.look("SELECT id, state FROM turns")).toEqual([{ id: "t-1", state: "admitted" }]);
});

test("F2: a changed id leaves the saved locator byte for byte, on a completed and on a settled failed turn", async () => {
  const rig = simpleRig();
  settleTurn(rig, "t-1");
  const before = await locatorKept(rig);
  expect(before).toContain("ses_1");
  const failure = { code: "NATIVE_FAILED", message: "no", details: {} } as const;
  for (const [id, changes] of [
    ["t-2", { outcome: "completed", error: null }],
    ["t-3", { outcome: "failed", error: failure }],
  ] as const) {
    rig.admit(id);
    const { settled } = rig.apply([ended(id, { ...changes, session: session("ses_other") })]);
    expect(settled[0]?.settlement).toMatchObject({ outcome: "failed", error: { code: "IDENTITY_CHANGED" } });
    expect(await locatorKept(rig)).toBe(before);
  }
  expect(rig.store.member("m-1")?.settled_turns).toBe(1);
  expect(rig.store.locatorHistory("m-1")).toHaveLength(1);
});

test("law 7, B8: a native id of another member is refused at settlement, and neither locator moves", async () => {
  const rig = simpleRig();
  rig.member("m-2");
  settleTurn(rig, "t-1");
  const before = await locatorKept(rig);
  rig.admit("t-2", "m-2");
  const { settled } = rig.apply([ended("t-2", {}, "m-2")]);
  expect(settled[0]?.settlement.error?.code).toBe("IDENTITY_CHANGED");
  expect(await locatorKept(rig, "m-2")).toBeNull();
  expect(await locatorKept(rig)).toBe(before);
});

test("law 7, B8: a candidate id counts: seen before any settlement, it is refused to a second member", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  rig.admit("t-2", "m-2");
  expect(rig.apply([context("t-1", "NEW", "ses_1")]).conflicts).toEqual([]);
  expect(rig.apply([context("t-2", "NEW", "ses_1", "m-2")]).conflicts).toEqual(["t-2"]);
});

test("an id that was first seen at a settlement belongs to its member from then on, settled or not", () => {
  for (const settled of [true, false]) {
    const rig = simpleRig();
    rig.member("m-2");
    rig.admit("t-1");
    rig.apply([ended("t-1", { settled, outcome: settled ? "completed" : "failed" })]);
    rig.admit("t-2", "m-2");
    expect(rig.apply([context("t-2", "NEW", "ses_1", "m-2")]).conflicts).toEqual(["t-2"]);
  }
});

test("an id that only a changed identity named is claimed for nobody", () => {
  const rig = simpleRig();
  rig.member("m-2");
  settleTurn(rig, "t-1");
  rig.admit("t-2");
  rig.apply([ended("t-2", { session: session("ses_2") })]);
  rig.admit("t-3", "m-2");
  expect(rig.apply([context("t-3", "NEW", "ses_2", "m-2")]).conflicts).toEqual([]);
});

test("the same native id in another sandbox is another conversation", () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("m-2", "other");
  settleTurn(rig, "t-1");
  rig.admit("t-2", "m-2");
  const { settled, conflicts } = rig.apply(
    [context("t-2", "NEW", "ses_1", "m-2"), ended("t-2", {}, "m-2")],
    "other",
  );
  expect(conflicts).toEqual([]);
  expect(settled[0]?.settlement.outcome).toBe("completed");
});

test("a locator that was not verified is promoted only after LIVE or RESTORED names its id", async () => {
  for (const status of ["LIVE", "RESTORED"] as const) {
    const rig = simpleRig();
    settleTurn(rig, "t-1");
    const before = await locatorKept(rig);
    rig.admit("t-2");
    rig.apply([ended("t-2", { session: session("ses_1", false) })]);
    expect(await locatorKept(rig)).toBe(before);
    const pending = await locatorKept(rig, "m-1", "pending_locator");
    expect(pending).toContain('"settledTurns":2');
    rig.admit("t-3");
    rig.apply([context("t-3", "LOST", "ses_1")]);
    rig.apply([context("t-3", "NEW", "ses_1")]);
    rig.apply([context("t-3", status, "ses_other")]);
    expect(await locatorKept(rig)).toBe(before);
    rig.apply([context("t-3", status, "ses_1")]);
    expect(await locatorKept(rig)).toBe(pending);
    expect(await locatorKept(rig, "m-1", "pending_locator")).toBeNull();
    expect(rig.store.locatorHistory("m-1").map(({ settledTurns }) => settledTurns)).toEqual([1, 2]);
  }
});

test("a bridge has no say over another sandbox's members and turns", async () => {
  const rig = simpleRig();
  rig.box("other");
  rig.admit("t-1");
  rig.apply([ended("t-1", { session: session("ses_1", false) })]);
  rig.admit("t-2");
  const words: ControlEvent[] = [
    context("t-2", "LIVE", "ses_1"),
    delivered("t-2"),
    ended("t-2"),
    { ...EVENTS["turn.tool"], turn: "t-2" },
    { ...EVENTS["member.process"] },
  ];
  for (const word of words) {
    expect(() => rig.apply([word], "other"), word.type).toThrow(
      expect.objectContaining({ code: "FRAME_INVALID" }),
    );
  }
  expect(rig.store.turn("t-2")?.state).toBe("admitted");
  expect(await locatorKept(rig)).toBeNull();
  expect(rig.store.sandbox("other")?.applied).toBe(0);
});

test("a bridge can't end a turn in the name of another of its members", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  for (const word of [ended("t-1", {}, "m-2"), delivered("t-1", "m-2"), context("t-1", "NEW", "x", "m-2")]) {
    expect(() => rig.apply([word]), word.type).toThrow(expect.objectContaining({ code: "FRAME_INVALID" }));
  }
  expect(rig.store.turn("t-1")?.state).toBe("admitted");
});

test("usage and text of a settlement are kept as they came", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.apply([ended("t-1")]);
  rig.reopen();
  expect(rig.store.turn("t-1")?.settlement).toEqual(SETTLEMENT);
});

test("a stale controller can write nothing, whatever it tries", async () => {
  const rig = simpleRig();
  rig.admit("t-1");
  await rig.look(
    "url" in rig.place ? "UPDATE hosts SET fence = 99" : "UPDATE meta SET value = '99' WHERE name = 'fence'",
  );
  const fenced = expect.objectContaining({ code: "FENCED" });
  const { store } = rig;
  expect(() => store.createSandbox({ id: "b", kind: "docker", directory: "/d" })).toThrow(fenced);
  expect(() => rig.member("m-9")).toThrow(fenced);
  expect(() => rig.admit("t-9")).toThrow(fenced);
  expect(() => store.setWanted("box", "running")).toThrow(fenced);
  expect(() => store.setUnready("box", ["x"])).toThrow(fenced);
  expect(() => store.follow("box", { journalId: "j", epoch: 1, seq: 0, acked: 0 })).toThrow(fenced);
  expect(() => rig.apply([delivered("t-1")])).toThrow(fenced);
  expect(() => store.end("t-1", SETTLEMENT)).toThrow(fenced);
  expect(() => store.audit("a", "b", "c")).toThrow(fenced);
  expect(await rig.look("SELECT state FROM turns")).toEqual([{ state: "admitted" }]);
});

test("the version in a locator is the pinned one of the CLI", () => {
  const rig = storeRig();
  rig.store.close();
  rig.store = openStore({ ...rig.place, nowAt: () => AT, cliVersion: (cli) => `${cli}-9` });
  rig.box("box");
  rig.member("m-1");
  settleTurn(rig, "t-1");
  expect(rig.store.member("m-1")?.locator?.cliVersion).toBe("opencode-9");
});

test("a store keeps its id over its openings, and two stores differ", () => {
  const [a, b] = [storeRig(), storeRig()];
  const { id } = a.store;
  a.reopen();
  expect(a.store.id).toBe(id);
  expect(b.store.id).not.toBe(id);
});

test("what was done is in the audit, with time and subject", async () => {
  const rig = simpleRig();
  rig.store.audit("what", "subject", "detail");
  const lines = await rig.look("SELECT what, subject, at FROM audit");
  expect(lines).toContainEqual({ what: "sandbox.create", subject: "box", at: AT });
  expect(lines).toContainEqual({ what: "member.create", subject: "m-1", at: AT });
  expect(lines.at(-1)).toEqual({ what: "what", subject: "subject", at: AT });
});
