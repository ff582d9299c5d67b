import { expect, test } from "vitest";
import { hostReport } from "../../controller/host-report.ts";
import { AT } from "../support/samples.ts";
import { delivered, ended, simpleRig } from "./store/rig.ts";

const MACHINE = { availableBytes: 5, totalBytes: 9 };
const ready = (member: string) =>
  ({ type: "member.process", member, processGeneration: 1, state: "ready", detail: "" }) as const;

test("an empty store has nothing to report", () => {
  const { store } = simpleRig();
  expect(hostReport(store, MACHINE)).toEqual({
    residents: [],
    retained: 0,
    members: 1,
    sandboxes: { running: 0, stopped: 1, unready: 0 },
    queue: [],
    memory: { residentBytes: 0, ...MACHINE },
  });
});

test("residents, retained members, and turns that wait are told apart", () => {
  const rig = simpleRig();
  for (const member of ["m-2", "m-3"]) rig.member(member);
  rig.admit("t-1");
  rig.apply([ready("m-1"), delivered("t-1"), ended("t-1")]);
  rig.admit("t-2", "m-2");
  rig.store.noteLaunch("t-2", Buffer.from("x"), 12);
  rig.apply([ready("m-2")]);
  rig.store.setResidents("box", [
    { member: "m-1", processGeneration: 1, rssBytes: 300 },
    { member: "m-2", processGeneration: 1, rssBytes: null },
  ]);
  rig.admit("t-3", "m-3");
  const report = hostReport(rig.store, MACHINE);
  expect(report.residents).toEqual([
    { member: "m-1", sandbox: "box", cli: "opencode", sinceAt: AT, usedAt: AT, rssBytes: 300, turn: null },
    { member: "m-2", sandbox: "box", cli: "opencode", sinceAt: AT, usedAt: AT, rssBytes: null, turn: "t-2" },
  ]);
  expect(report.queue).toEqual([{ turn: "t-3", member: "m-3", sandbox: "box", submittedAt: AT }]);
  expect(report).toMatchObject({ retained: 1, members: 3, memory: { residentBytes: 300 } });
});

test("what was removed is no part of it, and what is not ready is counted", () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("m-2", "other");
  rig.store.setWanted("other", "removed");
  rig.store.setWanted("box", "running");
  rig.store.setUnready("box", ["why"]);
  expect(hostReport(rig.store, MACHINE)).toMatchObject({
    members: 1,
    sandboxes: { running: 1, stopped: 0, unready: 1 },
  });
});

test("without figures of a machine it is this one", () => {
  const { totalBytes, availableBytes } = hostReport(simpleRig().store).memory;
  expect(totalBytes).toBeGreaterThan(1e8);
  expect(availableBytes).toBeLessThanOrEqual(totalBytes);
});
