import { expect, test } from "vitest";
import { watchOwnership } from "../../controller/ownership.ts";
import type { Store } from "../../controller/store/store.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { FakeClock } from "../support/fake-clock.ts";

function watched(look: () => void) {
  const clock = new FakeClock();
  const lost: string[] = [];
  const store = { checkOwned: look } as unknown as Store;
  const stop = watchOwnership(store, clock, ({ code }) => lost.push(code));
  return { clock, lost, stop };
}

test("a store that stays ours is looked at again and again, and nothing is said", () => {
  let looks = 0;
  const { clock, lost, stop } = watched(() => {
    looks += 1;
  });
  clock.advance(20_000);
  expect(looks).toBe(10);
  expect(lost).toEqual([]);
  stop();
  expect(clock.pending).toBe(0);
});

test("a store that became another's is told once, and not looked at any more", () => {
  let isOurs = true;
  const { clock, lost } = watched(() => {
    if (!isOurs) throw new HoldfastError("FENCED");
  });
  clock.advance(4000);
  isOurs = false;
  clock.advance(2000);
  expect(lost).toEqual(["FENCED"]);
  clock.advance(60_000);
  expect(lost).toEqual(["FENCED"]);
  expect(clock.pending).toBe(0);
});

test("a disk that can't be read is no verdict", () => {
  let fault: string | null = "STORE_ERROR";
  const { clock, lost } = watched(() => {
    if (fault === "STORE_ERROR") throw new HoldfastError("STORE_ERROR");
    if (fault !== null) throw new HoldfastError("FENCED");
  });
  clock.advance(10_000);
  expect(lost).toEqual([]);
  fault = "FENCED";
  clock.advance(2000);
  expect(lost).toEqual(["FENCED"]);
});
