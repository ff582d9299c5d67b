import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { memoryKills, watchMemory } from "../../bridge/memory-kills.ts";
import { Evidence } from "../../protocol/evidence.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

test("the counter is read in both versions of control groups, and its absence is no number", async () => {
  const root = temporaryDirectory();
  expect(await memoryKills(root)).toBeNull();
  mkdirSync(join(root, "memory"));
  writeFileSync(join(root, "memory/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  expect(await memoryKills(root)).toBe(3);
  writeFileSync(join(root, "memory.events"), "low 0\noom 9\noom_kill 7\noom_group_kill 1\n");
  expect(await memoryKills(root)).toBe(7);
  writeFileSync(join(root, "memory.events"), "oom_kill many\n");
  expect(await memoryKills(root)).toBe(3);
});

test("what was ended since is one piece of evidence, and nothing is none", async () => {
  for (const [before, after, says] of [
    [0, 2, /ended 2 process/],
    [5, 6, /ended 1 process/],
    [5, 5, null],
    [5, 0, null],
    [null, 3, null],
    [3, null, null],
  ] as const) {
    const counts = [before, after];
    const found = await watchMemory(new FakeClock(), async () => counts.shift() ?? null)();
    expect(found.map(({ what, detail }) => `${what}: ${detail}`)).toEqual(
      says === null ? [] : [expect.stringMatching(says)],
    );
    for (const piece of found) expect(Evidence.parse(piece)).toEqual(piece);
  }
});
