import { expect, test } from "vitest";
import { createProviderWaits } from "../../../bridge/drivers/provider-waits.ts";
import { FakeClock } from "../../support/fake-clock.ts";

function bench() {
  const clock = new FakeClock();
  const late: string[] = [];
  return { clock, late, waits: createProviderWaits(clock, 1000, (reason) => late.push(reason)) };
}

test("P19: the limit counts from the first wait; further ones do not extend it, and it is told once, with its reason", () => {
  const { clock, late, waits } = bench();
  waits.expect("ses", "429");
  for (let at = 0; at < 9; at += 1) {
    clock.advance(100);
    waits.expect("ses", `again ${at}`);
  }
  expect(late).toEqual([]);
  clock.advance(100);
  expect(late).toEqual(["429"]);
  waits.expect("ses", "still");
  clock.advance(10_000);
  expect([late, clock.pending]).toEqual([["429"], 0]);
});

test("P19: progress ends the wait, and the next one counts anew", () => {
  const { clock, late, waits } = bench();
  waits.expect("ses", "first");
  clock.advance(999);
  waits.forget("ses");
  waits.forget("ses");
  clock.advance(5000);
  expect([late, clock.pending]).toEqual([[], 0]);
  waits.expect("ses", "second");
  clock.advance(999);
  expect(late).toEqual([]);
  clock.advance(1);
  expect(late).toEqual(["second"]);
});

test("each session waits by itself: one's progress is not the other's", () => {
  const { clock, late, waits } = bench();
  waits.expect("root", "root");
  waits.expect("child", "child");
  waits.forget("root");
  waits.forget("unknown");
  clock.advance(1000);
  expect(late).toEqual(["child"]);
});

test("at the end nothing waits any more", () => {
  const { clock, late, waits } = bench();
  for (const session of ["a", "b", "c"]) waits.expect(session, session);
  waits.forgetAll();
  expect(clock.pending).toBe(0);
  clock.advance(10_000);
  expect(late).toEqual([]);
});

test("law 13: progress that was waiting while the process stood still counts first", () => {
  const { clock, late, waits } = bench();
  waits.expect("ses", "429");
  clock.freeze(60_000, () => waits.forget("ses"));
  clock.advance(60_000);
  expect(late).toEqual([]);
});
