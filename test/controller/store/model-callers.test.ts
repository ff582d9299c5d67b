import { expect, test } from "vitest";
import type { ControlEvent } from "../../../protocol/events.ts";
import { type Rig, simpleRig } from "./rig.ts";

const process = (
  state: "started" | "ready" | "exited" | "retired",
  processGeneration: number,
  member = "m-1",
): ControlEvent => ({ type: "member.process", member, processGeneration, state, detail: "" });

const may = (rig: Rig, processGeneration: number, { epoch = 1, member = "m-1", sandbox = "box" } = {}) =>
  rig.store.mayCall(sandbox, { member, epoch, processGeneration });

function followed(rig: Rig, epoch: number, changes: { seq?: number; journalId?: string } = {}): void {
  const applied = rig.store.sandbox("box")?.applied ?? 0;
  rig.store.follow("box", { journalId: "journal-box", epoch, seq: applied, acked: 0, ...changes });
}

test("a process may ask from its start on, the news of which may still be on its way, until it ends", () => {
  const rig = simpleRig();
  expect(may(rig, 1)).toBe(true);
  rig.apply([process("started", 1)]);
  rig.reopen();
  expect(may(rig, 1)).toBe(true);
  rig.apply([process("ready", 1)]);
  expect(may(rig, 1)).toBe(true);
  rig.apply([process("retired", 1)]);
  rig.reopen();
  expect(may(rig, 1)).toBe(false);
  expect(may(rig, 2)).toBe(true);
});

test("the next process of the member takes the place of the one before; another member's does not", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.apply([process("ready", 1), process("ready", 1, "m-2"), process("started", 3)]);
  expect([may(rig, 1), may(rig, 2), may(rig, 3)]).toEqual([false, false, true]);
  // The late end of the one before takes nothing from its successor.
  rig.apply([process("exited", 1)]);
  expect(may(rig, 3)).toBe(true);
  rig.apply([process("exited", 3)]);
  expect(may(rig, 3)).toBe(false);
  expect(may(rig, 1, { member: "m-2" })).toBe(true);
});

test("with a new life of the bridge every process of before is dead, and numbers begin anew", () => {
  const rig = simpleRig();
  rig.apply([process("ready", 1), process("ready", 7)]);
  followed(rig, 2);
  expect(may(rig, 7)).toBe(false);
  expect(may(rig, 1, { epoch: 2 })).toBe(true);
  rig.apply([process("ready", 1)]);
  // The same life's next hello changes nothing.
  followed(rig, 2);
  expect([may(rig, 1, { epoch: 2 }), may(rig, 0, { epoch: 2 })]).toEqual([true, false]);
});

test("what an earlier life journaled, and comes only now, says nothing of this life's processes", () => {
  const rig = simpleRig();
  // The bridge journaled a start in its first life, died, and dials again with both to tell.
  followed(rig, 2, { seq: 2 });
  rig.apply([process("started", 9), process("exited", 9)]);
  expect(may(rig, 1, { epoch: 2 })).toBe(true);
  rig.apply([process("started", 1), process("exited", 1)]);
  expect(may(rig, 1, { epoch: 2 })).toBe(false);
});

test("a journal that was set back, or is another one, begins anew also under the same number", () => {
  for (const changes of [{ seq: 0 }, { journalId: "another", seq: 0 }]) {
    const rig = simpleRig();
    rig.apply([process("ready", 5), process("retired", 5)]);
    followed(rig, 1, changes);
    expect(may(rig, 1)).toBe(true);
  }
});

test("a sandbox whose bridge was never heard of has nobody who may ask", () => {
  const rig = simpleRig();
  rig.store.createSandbox({ id: "new", kind: "docker", directory: "/d/new" });
  expect(may(rig, 1, { sandbox: "new" })).toBe(false);
  expect(may(rig, 1, { sandbox: "none" })).toBe(false);
});
