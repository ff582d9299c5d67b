import { expect, test } from "vitest";
import { LIMITS } from "../../protocol/limits.ts";

test("every limit is a positive whole number", () => {
  for (const [name, limit] of Object.entries(LIMITS)) {
    expect(Number.isSafeInteger(limit) && limit > 0, name).toBe(true);
  }
});

test("every limit of a size or of a time has its unit in its name", () => {
  const counts = ["framesPerMessage", "earlyMessages", "nestedLevels", "pendingRequests"];
  for (const name of Object.keys(LIMITS)) {
    if (!counts.includes(name)) expect(name).toMatch(/(Bytes|Chars|Ms)$/);
  }
});

test("the longest text of each kind fits one message, even at three bytes a unit", () => {
  const envelopeBytes = 64 * 1024;
  for (const units of [LIMITS.userTextBytes, LIMITS.outputChars]) {
    expect(3 * units + envelopeBytes).toBeLessThan(LIMITS.messageBytes);
  }
});

test("the waits are in proportion to one another", () => {
  expect(LIMITS.reconnectFirstMs).toBeLessThan(LIMITS.reconnectLongestMs);
  expect(LIMITS.reconnectLongestMs).toBeLessThan(LIMITS.reconnectStableMs);
  expect(2 * LIMITS.pingMs, "a dead link is noticed before a request on it is late").toBeLessThan(
    LIMITS.requestMs,
  );
});
