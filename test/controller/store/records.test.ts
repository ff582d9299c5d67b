import { expect, test } from "vitest";
import { MemberRow, parseRow, SandboxRow, TurnRow } from "../../../controller/store/records.ts";
import { wrongBounds } from "../../support/bounds.ts";
import { changed } from "../../support/changed.ts";
import { OPTIONS } from "../../support/member-options.ts";
import { AT, CONTAINER, LOCATOR, SETTLEMENT } from "../../support/samples.ts";

const SANDBOX = {
  id: "box",
  kind: "docker",
  directory: "/d",
  generation: 1,
  container: JSON.stringify(CONTAINER),
  wanted: "running",
  unready: null,
  journal_id: "j",
  applied: 3,
  created_at: AT,
};
const MEMBER = {
  id: "m-1",
  sandbox: "box",
  cli: "opencode",
  options: JSON.stringify(OPTIONS),
  submissions: 3,
  settled_turns: 2,
  locator: JSON.stringify(LOCATOR),
  pending_locator: null,
  must_prove: null,
  created_at: AT,
};
const TURN = {
  id: "t-1",
  member: "m-1",
  number: 3,
  state: "settled",
  text_sha256: "ab",
  text_bytes: 2,
  settlement: JSON.stringify(SETTLEMENT),
  submitted_at: AT,
  ended_at: AT + 1,
  launch: null,
  queued_ms: null,
};

test("JSON columns are read into the values that they hold", () => {
  expect(SandboxRow.parse(SANDBOX).container).toEqual(CONTAINER);
  expect(SandboxRow.parse({ ...SANDBOX, container: null }).container).toBeNull();
  const member = MemberRow.parse(MEMBER);
  expect(member.options).toEqual(OPTIONS);
  expect(member.locator).toEqual(LOCATOR);
  expect(member.pending_locator).toBeNull();
  expect(TurnRow.parse(TURN).settlement).toEqual(SETTLEMENT);
});

test("states, kinds and wishes that nobody wrote are refused", () => {
  expect(
    wrongBounds(SandboxRow, SANDBOX, [
      { at: "kind", good: ["docker", "process"], bad: ["podman", null] },
      { at: "wanted", good: ["running", "stopped", "removed"], bad: ["paused", null] },
      { at: "unready", good: ["why", null], bad: [1] },
    ]),
  ).toEqual([]);
  expect(
    wrongBounds(TurnRow, TURN, [
      { at: "state", good: ["prepared", "admitted", "unknown"], bad: ["ended", "", null] },
      { at: "settlement", good: [null], bad: ["null", "{}"] },
      { at: "ended_at", good: [null], bad: ["soon"] },
    ]),
  ).toEqual([]);
});

test("a value inside a JSON column is checked by its own schema", () => {
  const foreign = JSON.stringify(changed(LOCATOR, "format", 2));
  expect(MemberRow.safeParse({ ...MEMBER, locator: foreign }).success).toBe(false);
  const noModel = JSON.stringify(changed(OPTIONS, "model.contextTokens", 0));
  expect(MemberRow.safeParse({ ...MEMBER, options: noModel }).success).toBe(false);
});

test("a column that is no JSON is refused like any other wrong value, without an exception", () => {
  for (const text of ["", "{", "undefined"]) {
    expect(MemberRow.safeParse({ ...MEMBER, locator: text }).success).toBe(false);
    expect(TurnRow.safeParse({ ...TURN, settlement: text }).success).toBe(false);
  }
});

test("a row that is none of its kind is an error of the store, which names the column and not what is in it", () => {
  expect(parseRow(SandboxRow, SANDBOX)).toMatchObject({ id: "box" });
  const wrong = () => parseRow(SandboxRow, { ...SANDBOX, kind: "A-SECRET" });
  expect(wrong).toThrow(
    expect.objectContaining({ code: "STORE_ERROR", message: expect.stringContaining("kind") }),
  );
  expect(wrong).toThrow(expect.not.objectContaining({ message: expect.stringContaining("A-SECRET") }));
});
