import { expect, test } from "vitest";
import { createLeaseClock, LEASE_MS, MARGIN_MS, RENEW_MS } from "../../../controller/hosts/lease-clock.ts";

function rig() {
  let nowMs = 5_000_000;
  const lease = createLeaseClock({ monotonicMs: () => nowMs });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { lease, pass };
}

test("it is not held before the first renewal has come back", () => {
  const { lease } = rig();
  const renewed = lease.renewing();
  expect(lease.isHeld()).toBe(false);
  renewed();
  expect(lease.isHeld()).toBe(true);
});

test("law 12: it is counted from before the request, so a slow answer grants less", () => {
  const { lease, pass } = rig();
  const renewed = lease.renewing();
  pass(4000);
  renewed();
  expect(lease.leftMs()).toBe(LEASE_MS - MARGIN_MS - 4000);
  pass(LEASE_MS - MARGIN_MS - 4000);
  expect(lease.isHeld()).toBe(false);
});

test("an answer that comes when all of it is over grants nothing", () => {
  const { lease, pass } = rig();
  const renewed = lease.renewing();
  pass(LEASE_MS);
  renewed();
  expect(lease.isHeld()).toBe(false);
});

test("P48: after a freeze it is over, and the next renewal holds it again", () => {
  const { lease, pass } = rig();
  lease.renewing()();
  pass(60_000);
  expect(lease.isHeld()).toBe(false);
  lease.renewing()();
  expect(lease.isHeld()).toBe(true);
});

test("a late answer to an earlier renewal does not shorten what a later one was granted", () => {
  const { lease, pass } = rig();
  const early = lease.renewing();
  pass(1000);
  lease.renewing()();
  early();
  expect(lease.leftMs()).toBe(LEASE_MS - MARGIN_MS);
});

test("two renewals may fail before it is over", () => {
  expect(3 * RENEW_MS).toBeLessThan(LEASE_MS - MARGIN_MS);
});
