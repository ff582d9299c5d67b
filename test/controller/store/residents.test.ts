import { expect, test } from "vitest";
import type { ControlEvent } from "../../../protocol/events.ts";
import { ended, type Rig, simpleRig } from "./rig.ts";

const process = (
  member: string,
  state: "started" | "ready" | "exited" | "retired",
  processGeneration = 1,
): ControlEvent => ({
  type: "member.process",
  member,
  processGeneration,
  state,
  detail: "",
});

function rigOf(...members: string[]): Rig {
  const rig = simpleRig();
  for (const member of members) rig.member(member);
  return rig;
}
const residents = (rig: Rig) => rig.store.residents().map(({ member }) => member);

test("a process is resident from ready until it exited or was retired", () => {
  const rig = rigOf("m-2");
  rig.apply([process("m-1", "started")]);
  expect(residents(rig)).toEqual([]);
  rig.apply([process("m-1", "ready"), process("m-2", "ready")]);
  rig.reopen();
  expect(rig.store.residents()[0]).toMatchObject({
    member: "m-1",
    sandbox: "box",
    generation: 1,
    rss_bytes: null,
  });
  rig.apply([process("m-1", "exited")]);
  expect(residents(rig)).toEqual(["m-2"]);
  rig.apply([process("m-2", "retired")]);
  expect(residents(rig)).toEqual([]);
});

test("the late end of an earlier process leaves the one that took its place", () => {
  const rig = rigOf();
  rig.apply([process("m-1", "ready"), process("m-1", "ready", 2), process("m-1", "exited", 1)]);
  expect(rig.store.residents()).toMatchObject([{ member: "m-1", generation: 2 }]);
});

test("the longest unused stands first: a start and a turn's end are uses", () => {
  const rig = rigOf("m-2", "m-3");
  for (const member of ["m-1", "m-2", "m-3"]) rig.apply([process(member, "ready")]);
  expect(residents(rig)).toEqual(["m-1", "m-2", "m-3"]);
  rig.admit("t-1");
  rig.apply([ended("t-1")]);
  expect(residents(rig)).toEqual(["m-2", "m-3", "m-1"]);
});

test("the bridge's word replaces what was known of its sandbox, and of no other", () => {
  const rig = rigOf("m-2");
  rig.box("other");
  rig.member("m-9", "other");
  rig.apply([process("m-1", "ready"), process("m-2", "ready")]);
  rig.apply([process("m-9", "ready")], "other");
  const [first] = rig.store.residents();
  rig.store.setResidents("box", [{ member: "m-1", processGeneration: 1, rssBytes: 350e6 }]);
  expect(rig.store.residents()).toMatchObject([{ ...first, rss_bytes: 350e6 }, { member: "m-9" }]);
  rig.store.setResidents("box", [{ member: "m-2", processGeneration: 4, rssBytes: null }]);
  expect(rig.store.residents()).toMatchObject([{ member: "m-9" }, { member: "m-2", generation: 4 }]);
  rig.store.setResidents("box", [{ member: "m-9", processGeneration: 9, rssBytes: 1 }]);
  expect(rig.store.residents()).toMatchObject([{ member: "m-9", sandbox: "other", generation: 1 }]);
  rig.store.setResidents("box", []);
  expect(residents(rig)).toEqual(["m-9"]);
});
