import { expect, test } from "vitest";
import type { HostState } from "../../controller/hosts/host-life.ts";
import { watchOwnership } from "../../controller/ownership.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { FakeClock } from "../support/fake-clock.ts";

function watched(look: () => void, renew: (() => HostState) | null = null) {
  const clock = new FakeClock();
  const lost: string[] = [];
  const states: HostState[] = [];
  const stop = watchOwnership({
    store: { checkOwned: look, hosts: renew === null ? null : { renew } },
    clock,
    first: "active",
    onLost: ({ code }) => lost.push(code),
    onState: (state) => states.push(state),
  });
  return { clock, lost, states, stop };
}

const neverLooked = () => {
  throw new Error("only renewed");
};

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

test("a lease is renewed again and again, and what the host became is told once", () => {
  let state: HostState = "active";
  let renewals = 0;
  const { clock, lost, states, stop } = watched(neverLooked, () => {
    renewals += 1;
    return state;
  });
  clock.advance(12_000);
  expect([renewals, states]).toEqual([3, []]);
  state = "draining";
  clock.advance(12_000);
  expect([renewals, states, lost]).toEqual([6, ["draining"], []]);
  stop();
  expect(clock.pending).toBe(0);
});

test("law 12: a server that does not answer for as long as was granted ends it, once; a shorter silence does not", () => {
  let isThere = false;
  const { clock, lost } = watched(neverLooked, () => {
    if (!isThere) throw new HoldfastError("STORE_ERROR", "no server");
    return "active";
  });
  clock.advance(8000);
  isThere = true;
  clock.advance(4000);
  isThere = false;
  clock.advance(12_000);
  expect(lost).toEqual([]);
  clock.advance(4000);
  expect(lost).toEqual(["LEASE_LOST"]);
  clock.advance(60_000);
  expect(lost).toEqual(["LEASE_LOST"]);
  expect(clock.pending).toBe(0);
});

for (const code of ["FENCED", "HOST_ENDED"] as const) {
  test(`law 12: ${code} at a renewal ends it at once`, () => {
    const { clock, lost } = watched(neverLooked, () => {
      throw new HoldfastError(code);
    });
    clock.advance(4000);
    expect(lost).toEqual([code]);
    expect(clock.pending).toBe(0);
  });
}
