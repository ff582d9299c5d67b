import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { withLock } from "../../sandbox-image/lock.ts";

test("two holders of one name follow each other", async () => {
  const name = `hf-test-${randomUUID()}`;
  const seen: string[] = [];
  let waits = 0;
  const hold = (who: string): Promise<void> =>
    withLock(name, { waitMs: 10_000, onWait: () => void waits++ }, async () => {
      seen.push(`${who} in`);
      await new Promise((resolve) => setImmediate(resolve));
      seen.push(`${who} out`);
    });
  await Promise.all([hold("a"), hold("b")]);
  expect([
    ["a in", "a out", "b in", "b out"],
    ["b in", "b out", "a in", "a out"],
  ]).toContainEqual(seen);
  expect(waits).toBe(1);
});

test("a failure in the work lets go of the name", async () => {
  const name = `hf-test-${randomUUID()}`;
  await expect(withLock(name, { waitMs: 0 }, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await withLock(name, { waitMs: 0 }, () => Promise.resolve(1))).toBe(1);
});

test("whoever waits too long is told so", async () => {
  const name = `hf-test-${randomUUID()}`;
  await withLock(name, { waitMs: 0 }, async () => {
    await expect(withLock(name, { waitMs: 1 }, () => Promise.resolve())).rejects.toThrow(
      "another process has held",
    );
  });
});
