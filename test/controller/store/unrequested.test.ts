import { expect, test } from "vitest";
import { UNREQUESTED_KEPT } from "../../../controller/store/unrequested.ts";
import { AT, EVENTS } from "../../support/samples.ts";
import { simpleRig } from "./rig.ts";

const seen = (detail: string, member = "m-1") => ({ ...EVENTS["member.unrequested"], detail, member });

test("what a CLI did by itself is kept for its member, in order, over a restart, once", () => {
  const rig = simpleRig();
  rig.member("m-2");
  const events = [seen("one"), seen("other", "m-2"), seen("two")];
  rig.apply(events);
  rig.store.apply(
    "box",
    events.map((event, at) => ({ seq: at + 1, at: AT, event })),
  );
  rig.reopen();
  expect(rig.store.unrequestedOf("m-1")).toEqual([
    { at: AT, event: seen("one") },
    { at: AT, event: seen("two") },
  ]);
  expect(rig.store.unrequestedOf("m-2")).toHaveLength(1);
  expect(rig.store.unrequestedOf("none")).toEqual([]);
});

test("only the newest is kept, of each member for itself", () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.apply([
    seen("other", "m-2"),
    ...Array.from({ length: UNREQUESTED_KEPT + 30 }, (_, at) => seen(`n ${at}`)),
  ]);
  const details = rig.store.unrequestedOf("m-1").map(({ event }) => event.detail);
  expect(details).toHaveLength(UNREQUESTED_KEPT);
  expect(details[0]).toBe("n 30");
  expect(details.at(-1)).toBe(`n ${UNREQUESTED_KEPT + 29}`);
  expect(rig.store.unrequestedOf("m-2")).toHaveLength(1);
});

test("what is no such event, and another sandbox's, is not kept", () => {
  const rig = simpleRig();
  rig.box("other");
  rig.member("n-1", "other");
  rig.apply([EVENTS["member.process"], EVENTS["member.subscription"]]);
  expect(() => rig.apply([seen("foreign", "n-1")])).toThrow(
    expect.objectContaining({ code: "FRAME_INVALID" }),
  );
  expect(rig.store.unrequestedOf("m-1")).toEqual([]);
  expect(rig.store.unrequestedOf("n-1")).toEqual([]);
});
