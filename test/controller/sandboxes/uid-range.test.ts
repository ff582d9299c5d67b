import { expect, test } from "vitest";
import { freeUidRange, UIDS_PER_SANDBOX, uidRangeOf } from "../../../controller/sandboxes/uid-range.ts";

test("ranges are given from the lowest, never overlap, and end below nobody's user", () => {
  const labels: string[] = [];
  const seen = new Set<number>();
  for (;;) {
    const range = freeUidRange(labels, 0);
    if (range === null) break;
    labels.push(String(range.firstUid));
    for (let uid = range.firstUid; uid <= range.lastUid; uid += 1) {
      expect(seen.has(uid)).toBe(false);
      seen.add(uid);
    }
    expect(range.lastUid).toBeLessThan(65_534);
  }
  expect(labels[0]).toBe("20001");
  expect(labels.length).toBeGreaterThan(300);
});

test("a range that became free is given again", () => {
  const second = String(20_001 + UIDS_PER_SANDBOX);
  expect(freeUidRange(["20001", String(20_001 + 2 * UIDS_PER_SANDBOX)], 0)?.firstUid).toBe(Number(second));
});

test("whoever lost a race takes a later one, and the last one when it skips too many", () => {
  expect(freeUidRange([], 2)?.firstUid).toBe(20_001 + 2 * UIDS_PER_SANDBOX);
  expect(freeUidRange([], 100_000)).toEqual(freeUidRange([], 354));
});

test("a container without the label, or with one that we never wrote, has the first range", () => {
  for (const label of [undefined, "", "7", "0", "-20001", "20001; rm"])
    expect(uidRangeOf(label)).toEqual({ firstUid: 20_001, lastUid: 20_128 });
  expect(freeUidRange([undefined], 0)?.firstUid).toBe(20_129);
});
