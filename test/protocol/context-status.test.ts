import { expect, test } from "vitest";
import { type ContextFacts, decideContext, type ResumeResult } from "../../protocol/context-status.ts";
import { CONTAINER, DIGEST_A, DIGEST_B, LAUNCH_PARTS, LOCATOR } from "../support/samples.ts";
import { combinations, fitting, rowsOf } from "../support/table.ts";

// settled turns, locator, container, counts, resident process, doubt, resume -> decision.
// "fits": took the last turn, same launch digest, same native id. Each other word names what does not fit.
const DECISIONS = rowsOf(`
  none  *     *            *      *                                  *     *        NEW
  some  none  *            *      *                                  *     *        LOST
  some  kept  other        *      *                                  *     *        LOST
  some  kept  same         other  *                                  *     *        LOST
  some  kept  same         same   fits                               sure  *        LIVE
  some  kept  same         same   none|idle|digest|session|unnamed   sure  untried  resume
  some  kept  same         same   none|idle|digest|session|unnamed   sure  proven   RESTORED
  some  kept  same         same   none|idle|digest|session|unnamed   sure  lost     LOST
  some  kept  same         same   none|idle|digest|session|unnamed   sure  error    error
  some  kept  same         same   *                                  doubt untried  resume
  some  kept  same         same   *                                  doubt proven   RESTORED
  some  kept  same         same   *                                  doubt lost     LOST
  some  kept  same         same   *                                  doubt error    error
`);

const FITS = {
  tookLastTurn: true,
  launchDigest: DIGEST_B,
  launchParts: LAUNCH_PARTS,
  nativeId: LOCATOR.nativeId,
};
const RESIDENTS: Record<string, ContextFacts["resident"]> = {
  none: null,
  fits: FITS,
  idle: { ...FITS, tookLastTurn: false },
  digest: { ...FITS, launchDigest: DIGEST_A, launchParts: { ...LAUNCH_PARTS, model: DIGEST_B } },
  session: { ...FITS, nativeId: "ses_2" },
  unnamed: { ...FITS, nativeId: null },
};
const RESUMES: Record<string, ResumeResult | null> = {
  untried: null,
  proven: { kind: "proven" },
  lost: { kind: "lost", reason: "the history lacks the last turn" },
  error: { kind: "error", reason: "the login was refused" },
};

const FACTS: ContextFacts = {
  settledTurns: 2,
  locator: LOCATOR,
  container: CONTAINER,
  resident: FITS,
  mustProve: null,
  launchDigest: DIGEST_B,
  launchParts: LAUNCH_PARTS,
  resume: null,
};

test("every combination of facts is decided as the one row of the table that fits it", () => {
  for (const values of combinations([
    ["none", "some"],
    ["none", "kept"],
    ["same", "other"],
    ["same", "other"],
    Object.keys(RESIDENTS),
    ["sure", "doubt"],
    Object.keys(RESUMES),
  ])) {
    const [settled, locator, container, counts, resident = "", doubt, resume = ""] = values;
    const rows = fitting(DECISIONS, values);
    expect(rows, `one row for ${values.join(" ")}`).toHaveLength(1);
    const decision = decideContext({
      settledTurns: settled === "none" ? 0 : 2,
      locator: locator === "none" ? null : { ...LOCATOR, settledTurns: counts === "same" ? 2 : 1 },
      container: container === "same" ? CONTAINER : { ...CONTAINER, containerId: "decaf" },
      resident: RESIDENTS[resident] ?? null,
      mustProve: doubt === "doubt" ? "turn t-1 is unknown" : null,
      launchDigest: DIGEST_B,
      launchParts: LAUNCH_PARTS,
      resume: RESUMES[resume] ?? null,
    });
    const said = decision.kind === "decided" ? decision.status : decision.kind;
    expect(said, values.join(" ")).toBe(rows[0]?.[7]);
    expect(decision.reason.length, "a reason is always given").toBeGreaterThan(5);
  }
});

test("a member is NEW until its first settled turn, also after attempts that left a process and a candidate", () => {
  const decision = decideContext({ ...FACTS, settledTurns: 0, locator: null });
  expect(decision).toMatchObject({ kind: "decided", status: "NEW" });
});

test("a retained member without a locator is LOST, even with a live process that took its last turn", () => {
  const decision = decideContext({ ...FACTS, locator: null, resume: { kind: "proven" } });
  expect(decision).toEqual({
    kind: "decided",
    status: "LOST",
    reason: "a retained member has no locator",
  });
});

for (const [part, other] of [
  ["sandboxId", "box-2"],
  ["generation", 2],
  ["containerId", "decaf"],
  ["imageId", "sha256:5678"],
  ["helperSha256", DIGEST_B],
] as const) {
  test(`a container with another ${part} is LOST and says so, even with a live process`, () => {
    const decision = decideContext({ ...FACTS, container: { ...CONTAINER, [part]: other } });
    expect(decision).toMatchObject({ kind: "decided", status: "LOST" });
    expect(decision.reason).toContain(part);
  });
}

test("a locator that counts other turns than the record is LOST, in both directions", () => {
  for (const settledTurns of [1, 3]) {
    const decision = decideContext({ ...FACTS, locator: { ...LOCATOR, settledTurns } });
    expect(decision).toMatchObject({ kind: "decided", status: "LOST" });
  }
});

test("missing native state is LOST, and a passing trouble is an error that keeps the locator", () => {
  const facts: ContextFacts = { ...FACTS, resident: null };
  expect(decideContext({ ...facts, resume: { kind: "lost", reason: "no such session" } })).toEqual({
    kind: "decided",
    status: "LOST",
    reason: "no such session",
  });
  expect(decideContext({ ...facts, resume: { kind: "error", reason: "disk is full" } })).toEqual({
    kind: "error",
    reason: "disk is full",
  });
});

test("a doubt of the host is the reason, before everything that the process itself shows", () => {
  const facts: ContextFacts = { ...FACTS, mustProve: "turn t-1 is unknown" };
  expect(decideContext(facts)).toEqual({ kind: "resume", reason: "turn t-1 is unknown" });
  expect(decideContext({ ...facts, resume: { kind: "proven" } })).toEqual({
    kind: "decided",
    status: "RESTORED",
    reason: "turn t-1 is unknown",
  });
});

test("why a new process is needed is said, before the resume and after it", () => {
  for (const [resident, reason] of [
    ["none", "no process is resident"],
    ["digest", "the model changed"],
    ["idle", "the resident process did not take the last turn"],
    ["session", "the resident process holds another session"],
    ["unnamed", "the resident process holds another session"],
  ] as const) {
    const facts = { ...FACTS, resident: RESIDENTS[resident] ?? null };
    expect(decideContext(facts)).toEqual({ kind: "resume", reason });
    expect(decideContext({ ...facts, resume: { kind: "proven" } })).toEqual({
      kind: "decided",
      status: "RESTORED",
      reason,
    });
  }
});

test("a launch whose parts are not known changed all the same", () => {
  expect(decideContext({ ...FACTS, launchDigest: DIGEST_A, launchParts: null })).toEqual({
    kind: "resume",
    reason: "the launch configuration changed",
  });
});
