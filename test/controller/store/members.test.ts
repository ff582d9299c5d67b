import { expect, test } from "vitest";
import { SETTLEMENT } from "../../support/samples.ts";
import { simpleRig } from "./rig.ts";

test("a member begins with nothing settled and no number, and its id is given once", () => {
  const rig = simpleRig();
  expect(rig.store.member("m-1")).toMatchObject({ sandbox: "box", submissions: 0, settled_turns: 0 });
  expect(() => rig.member("m-1")).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
  expect(rig.store.membersOf("box")).toHaveLength(1);
});

test("a member is busy while its own turn is open, and not with another's", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.admit("t-1");
  expect(() => rig.admit("t-2")).toThrow(expect.objectContaining({ code: "MEMBER_BUSY" }));
  rig.admit("u-1", "m-2");
  rig.store.end("t-1", SETTLEMENT);
  rig.admit("t-2");
});
