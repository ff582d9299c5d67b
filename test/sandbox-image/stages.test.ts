import { expect, test } from "vitest";
import { parseLock } from "../../sandbox-image/libraries.ts";
import { CLI_PINS, type CliPin } from "../../sandbox-image/pins.ts";
import { planLayers } from "../../sandbox-image/stages.ts";

const pin = (name: string): CliPin => ({
  ...(CLI_PINS[0] as CliPin),
  package: name,
  kind: "program",
});
const INPUTS = {
  baseDigest: "base",
  buildFile: "FROM x",
  nodeVersion: "24.0.0",
  pins: [pin("a"), pin("b")],
  locked: locked({}),
};

function locked(changes: Record<string, string>) {
  const digests = { a: "sha512-a", b: "sha512-b", c: "sha512-c", ...changes };
  const packages = Object.entries(digests).map(([name, integrity]) => [
    `node_modules/${name}`,
    { integrity },
  ]);
  return parseLock(JSON.stringify({ packages: Object.fromEntries(packages) }));
}

const digests = (changes: Partial<typeof INPUTS>) =>
  planLayers({ ...INPUTS, ...changes }).map(({ digest }) => digest);

/** How many layers from the bottom are the same. */
function shared(one: readonly string[], other: readonly string[]): number {
  const at = one.findIndex((digest, index) => digest !== other[index]);
  return at === -1 ? one.length : at;
}

test("there is a layer for node and one a CLI, each with a digest of its own", () => {
  const layers = planLayers(INPUTS);
  expect(layers.map(({ cli }) => cli?.pin.package ?? "node")).toEqual(["node", "a", "b"]);
  expect(new Set(layers.map(({ digest }) => digest)).size).toBe(3);
  expect(digests({})).toEqual(digests({}));
});

test("a changed CLI renews its own layer and those above, and none below", () => {
  const before = digests({});
  const cases: Array<[Partial<typeof INPUTS>, number]> = [
    [{ baseDigest: "other" }, 0],
    [{ buildFile: "FROM y" }, 0],
    [{ nodeVersion: "24.0.1" }, 0],
    [{ locked: locked({ a: "sha512-other" }) }, 1],
    [{ pins: [{ ...pin("a"), leftOut: ["*.map"] }, pin("b")] }, 1],
    [{ locked: locked({ b: "sha512-other" }) }, 2],
    [{ pins: [pin("a"), pin("c")] }, 2],
    // Of a package that is in no layer.
    [{ locked: locked({ c: "sha512-other" }) }, 3],
  ];
  for (const [changes, same] of cases)
    expect(shared(before, digests(changes)), JSON.stringify(changes)).toBe(same);
});
