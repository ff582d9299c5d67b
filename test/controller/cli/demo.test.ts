// What the tour prints and how it ends, from its result alone; and what it refuses. The tour itself:
// test/conformance/tour-process.test.ts, test/container/tour.test.ts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isAsExpected, report } from "../../../controller/cli/demo.ts";
import type { TourResult, TourRow } from "../../../controller/cli/tour.ts";
import { cli, DEAD_ENGINE, keptOutput } from "../../support/cli.ts";
import { SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const ROW: TourRow = {
  step: "1. a step",
  expected: { context: "LIVE", outcome: "completed" },
  settlement: SETTLEMENT,
  tookMs: 1234,
};

function result(change: Partial<TourResult> = {}): TourResult {
  const proofs = [{ claim: "it was so", holds: true }];
  return { kind: "docker", rows: [ROW, ROW, ROW, ROW, ROW], proofs, leftOut: [], ...change };
}

test("when all of it held, the exit code is 0 and it says how to go on", () => {
  const output = keptOutput({ callName: "npm run holdfast --" });
  expect(report(result({ leftOut: ["isolation: none"] }), output)).toBe(0);
  expect(output.out()).toMatch(/1\. a step +LIVE +completed, settled +session\.idle +ses_1 +1\.2 s$/m);
  expect(output.out()).toContain("  yes  it was so\n");
  expect(output.out()).toContain("  left out  isolation: none\n");
  expect(output.out()).toContain("npm run holdfast -- chat --base-url URL");
  expect(output.out()).not.toContain("EXPECTED");
});

test("a proof that fails, a turn that is not as expected, or a missing one give exit code 1 and say so", () => {
  const other: TourRow = { ...ROW, expected: { context: "LOST", outcome: "refused" } };
  expect(isAsExpected(other)).toBe(false);
  for (const [change, text] of [
    [{ proofs: [{ claim: "it was so", holds: false }] }, "  NO   it was so"],
    [{ rows: [ROW, ROW, ROW, ROW, other] }, "EXPECTED LOST refused"],
    [{ rows: [ROW] }, "NOT all of it held"],
  ] as Array<[Partial<TourResult>, string]>) {
    const output = keptOutput();
    expect(report(result(change), output)).toBe(1);
    expect(output.out()).toContain(text);
    expect(output.out()).toContain("NOT all of it held.");
    expect(output.out()).not.toContain("how to go on");
  }
});

test("with --json the result is one value with the verdict", () => {
  const output = keptOutput({ isJson: true });
  expect(report(result({ rows: [] }), output)).toBe(1);
  expect(JSON.parse(output.out())).toMatchObject({ isGood: false, kind: "docker", rows: [] });
});

test("where nothing was built, it says what to run", async () => {
  const env = { HOLDFAST_DIST: temporaryDirectory(), DOCKER_HOST: DEAD_ENGINE };
  const store = temporaryDirectory();
  const any = await cli(["demo"], { store, env });
  expect(any).toMatchObject({ code: 1, stdout: "" });
  expect(any.stderr).toMatch(/^holdfast: .*`npm start`.* \[IMAGE_MISSING\] .+\n$/);
  const plain = await cli(["demo", "--sandbox", "process"], { store, env });
  expect(plain.stderr).toContain("npm run image -- --bundle-only");
});

test("a model of the user's that can't be reached is said at once", async () => {
  const dist = temporaryDirectory();
  const bridge = join(dist, "bridge.cjs");
  writeFileSync(bridge, "");
  writeFileSync(
    join(dist, "bundle.json"),
    JSON.stringify({ node: process.execPath, bridge, piExtension: bridge, clis: [] }),
  );
  const words = ["demo", "--sandbox", "process", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"];
  const env = { HOLDFAST_DIST: dist, DOCKER_HOST: DEAD_ENGINE };
  const { code, stderr } = await cli(words, { store: temporaryDirectory(), env });
  expect(code).toBe(1);
  expect(stderr).toContain("[MODEL_UNREACHABLE]");
});
