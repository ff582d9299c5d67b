import { expect, test } from "vitest";
import { hostSettlement } from "../../../controller/host-settlement.ts";
import { AT, SETTLEMENT } from "../../support/samples.ts";
import { type Rig, simpleRig } from "./rig.ts";

const UNKNOWN = hostSettlement({
  outcome: "unknown",
  code: "DELIVERY_UNKNOWN",
  reason: "gone",
  what: "sandbox_gone",
  at: AT,
});

const failed = (code: string) => expect.objectContaining({ code });

function withUnknown(): Rig {
  const rig = simpleRig();
  rig.admit("t-1");
  rig.store.end("t-1", UNKNOWN);
  return rig;
}

test("the first note stays: the same again changes nothing, another one is refused", () => {
  const { store } = withUnknown();
  const made = store.recordInspection("t-1", "nothing was changed in the workspace");
  expect(store.recordInspection("t-1", "nothing was changed in the workspace")).toEqual(made);
  expect(() => store.recordInspection("t-1", "another")).toThrow(failed("INSPECTION_NOT_NEEDED"));
  expect(store.inspectionOf("t-1")).toEqual(made);
});

test("only an unknown turn takes a note", () => {
  const rig = simpleRig();
  rig.admit("t-1");
  expect(() => rig.store.recordInspection("t-1", "seen")).toThrow(failed("INSPECTION_NOT_NEEDED"));
  rig.store.end("t-1", SETTLEMENT);
  expect(() => rig.store.recordInspection("t-1", "seen")).toThrow(failed("INSPECTION_NOT_NEEDED"));
  expect(() => rig.store.recordInspection("none", "seen")).toThrow(failed("TURN_UNKNOWN"));
  expect(rig.store.inspectionOf("t-1")).toBeNull();
});

test("each unknown turn needs its own note, and another member's is none of its business", () => {
  const rig = withUnknown();
  rig.member("m-2");
  rig.admit("u-1", "m-2");
  rig.store.end("u-1", SETTLEMENT);
  rig.store.recordInspection("t-1", "seen");
  rig.admit("t-2");
  rig.store.end("t-2", UNKNOWN);
  expect(() => rig.admit("t-3")).toThrow(failed("INSPECTION_NEEDED"));
  rig.admit("u-2", "m-2");
  rig.store.recordInspection("t-2", "seen too");
  rig.admit("t-3");
});
