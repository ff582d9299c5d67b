/** A short soak in every run of the tests, always the same one; `npm run soak` takes another seed each time. */
import { expect, test } from "vitest";
import { chanceOf } from "../soak/chance.ts";
import { FAULTS } from "../soak/faults.ts";
import { soakOptions } from "../soak/options.ts";
import { runSoak } from "../soak/run.ts";

const SHORT = [
  "--turns",
  "12",
  "--members",
  "2",
  "--clis",
  "opencode",
  "--seed",
  "5",
  "--limit-s",
  "15",
  "--shared-engine",
];

test("a short soak: every invariant holds after every turn", async () => {
  const lines: string[] = [];
  const { turns, table, violations } = await runSoak(
    soakOptions(SHORT, () => 1),
    (line) => void lines.push(line),
  );
  process.stderr.write(`\n── soak\n${table}\n`);
  expect(violations, lines.join("\n")).toEqual([]);
  expect(turns).toBeGreaterThan(0);
});

test("the same seed gives the same choices, and each fault has its turn", () => {
  const names = (seed: number) => {
    const chance = chanceOf(seed);
    return Array.from({ length: 2000 }, () => chance.weighted(FAULTS).name);
  };
  expect(names(42)).toEqual(names(42));
  expect(names(42)).not.toEqual(names(43));
  expect(new Set(names(42))).toEqual(new Set(FAULTS.map(({ name }) => name)));
});

test("what the command line does not understand is named", () => {
  for (const args of [["--turns", "0"], ["--seed", "x"], ["--nonsense"], ["--limit-s", "-1"]])
    expect(() => soakOptions(args, () => 1)).toThrow(TypeError);
  expect(soakOptions([], () => 7)).toMatchObject({
    turns: 1000,
    seed: 7,
    members: 4,
    ownEngine: true,
    faults: null,
  });
});
