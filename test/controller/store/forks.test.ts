import { expect, test } from "vitest";
import { forkError, forkProblem } from "../../../controller/store/forks.ts";
import type { ForkRow } from "../../../controller/store/records.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { SETTLEMENT } from "../../support/samples.ts";
import { context, type Rig, simpleRig } from "./rig.ts";

const failed = (code: string) => expect.objectContaining({ code });
const SESSION = {
  nativeId: "ses_fork",
  directory: "/workspace",
  tail: { role: "assistant" as const, id: "msg_f" },
};

function settledRig(): Rig {
  const rig = simpleRig();
  settle(rig, "t-1", 1);
  return rig;
}

function settle(
  rig: Rig,
  turn: string,
  number: number,
  member = "m-1",
  nativeId = "ses_1",
  isVerified = true,
): void {
  rig.admit(turn, member);
  const { session } = SETTLEMENT;
  if (session === null) throw new TypeError("a sample without a session");
  const settlement = { ...SETTLEMENT, session: { ...session, nativeId, isVerified } };
  rig.apply([
    context(turn, "RESTORED", nativeId, member),
    { type: "turn.ended", turn, member, number, settlement },
  ]);
}

const prepare = (rig: Rig, key = "k", parent = "m-1", id?: string) =>
  rig.store.changeForks(parent, (forks) => forks.prepare({ key, parent, id }, () => "m-made"));

test("a fork is recorded with its member, which counts the parent's turns, and is the same one for the same key", () => {
  const rig = settledRig();
  const made = prepare(rig);
  expect(made).toMatchObject({ member: "m-made", parent: "m-1", state: "prepared", awaits_turn: false });
  expect(made.source).toEqual(rig.store.member("m-1")?.locator);
  const { options, sandbox, cli } = rig.store.member("m-1") ?? {};
  expect(rig.store.member("m-made")).toMatchObject({
    options,
    sandbox,
    cli,
    settled_turns: 1,
    locator: null,
  });
  rig.reopen();
  expect(prepare(rig)).toEqual(made);
  expect(rig.store.membersOf("box")).toHaveLength(2);
  expect(() => prepare(rig, "k", "m-1", "m-other")).toThrow(failed("FORK_KEY_USED"));
  expect(() => prepare(rig, "k", "m-made")).toThrow(failed("FORK_KEY_USED"));
  expect(() => prepare(rig, "k-2", "m-1", "m-made")).toThrow(failed("REQUEST_INVALID"));
});

test("until its copy is made a fork begins where the parent stands; afterwards where it was copied", () => {
  const rig = settledRig();
  prepare(rig);
  settle(rig, "t-2", 2);
  expect(prepare(rig).source.settledTurns).toBe(2);
  expect(rig.store.member("m-made")?.settled_turns).toBe(2);
  rig.store.changeForks("m-made", (forks) => forks.copied("m-made"));
  settle(rig, "t-3", 3);
  expect(prepare(rig).source.settledTurns).toBe(2);
});

test("a member that has settled nothing, is busy, or is a fork itself that is not made yet, is not forked", () => {
  const rig = simpleRig();
  expect(() => prepare(rig)).toThrow(failed("FORK_EMPTY"));
  rig.admit("t-1");
  expect(() => prepare(rig)).toThrow(failed("MEMBER_BUSY"));
  expect(() => prepare(rig, "k", "m-9")).toThrow(failed("MEMBER_UNKNOWN"));
  const other = settledRig();
  prepare(other);
  expect(() => prepare(other, "k-2", "m-made")).toThrow(failed("FORK_UNFINISHED"));
  other.store.changeForks("m-made", (forks) => forks.copied("m-made"));
  expect(() => prepare(other, "k-2", "m-made")).toThrow(failed("FORK_UNFINISHED"));
});

test("a fork that was made at once is ready with its own locator, and takes turns from then on alone", () => {
  const rig = settledRig();
  const parent = rig.store.member("m-1");
  prepare(rig);
  expect(() => rig.admit("u-1", "m-made")).toThrow(failed("FORK_UNFINISHED"));
  rig.store.changeForks("m-made", (forks) => forks.materialized("m-made", SESSION));
  rig.reopen();
  expect(rig.store.forkOf("m-made")).toMatchObject({ state: "materialized", session: SESSION });
  expect(() => rig.admit("u-1", "m-made")).toThrow(failed("FORK_UNFINISHED"));
  rig.store.changeForks("m-made", (forks) => forks.ready("m-made"));
  expect(rig.store.forkOf("m-made")?.state).toBe("ready");
  expect(rig.store.member("m-made")?.locator).toEqual({ ...parent?.locator, ...SESSION });
  expect(rig.store.member("m-1")).toEqual(parent);
  rig.admit("u-1", "m-made");
});

test("law 7: a session that is another member's fails the fork, and takes nothing from anybody", () => {
  const rig = settledRig();
  prepare(rig);
  const taken = { ...SESSION, nativeId: "ses_1" };
  expect(() => rig.store.changeForks("m-made", (forks) => forks.materialized("m-made", taken))).toThrow(
    failed("IDENTITY_CHANGED"),
  );
  expect(rig.store.forkOf("m-made")).toMatchObject({ state: "prepared", session: null });
  rig.store.changeForks("m-made", (forks) =>
    forks.fail("m-made", new HoldfastError("IDENTITY_CHANGED", "another's")),
  );
  expect(() => rig.admit("u-1", "m-made")).toThrow(failed("FORK_FAILED"));
  expect(forkError(prepare(rig))).toMatchObject({ code: "IDENTITY_CHANGED", message: "another's" });
});

test("a fork that is made with a turn takes turns, and is ready when one has settled and its id was verified", () => {
  const rig = settledRig();
  prepare(rig);
  rig.store.changeForks("m-made", (forks) => forks.copied("m-made"));
  settle(rig, "u-1", 1, "m-made", "ses_fork", false);
  expect(rig.store.forkOf("m-made")?.state).toBe("materialized");
  expect(rig.store.member("m-made")).toMatchObject({ settled_turns: 2, locator: null });
  settle(rig, "u-2", 2, "m-made", "ses_fork");
  expect(rig.store.forkOf("m-made")?.state).toBe("ready");
  expect(rig.store.member("m-made")?.locator).toMatchObject({ nativeId: "ses_fork", settledTurns: 3 });
});

test("what keeps a fork from taking a turn is told by its state", () => {
  const row = (changes: Partial<ForkRow>) =>
    ({ awaits_turn: false, parent: "m-1", error: null, ...changes }) as ForkRow;
  expect(forkProblem(null)).toBeNull();
  expect(forkProblem(row({ state: "ready" }))).toBeNull();
  expect(forkProblem(row({ state: "prepared", awaits_turn: true }))).toBeNull();
  expect(forkProblem(row({ state: "prepared" }))?.code).toBe("FORK_UNFINISHED");
  expect(forkProblem(row({ state: "materialized" }))?.code).toBe("FORK_UNFINISHED");
  expect(forkProblem(row({ state: "failed" }))?.code).toBe("FORK_FAILED");
});
