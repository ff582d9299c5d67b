import { expect, test } from "vitest";
import { type NextContextFacts, nextContext, type ResidentSight } from "../../controller/next-context.ts";
import type { MemberRow, SandboxRow, TurnRow } from "../../controller/store/records.ts";
import { OPTIONS } from "../support/member-options.ts";
import { AT, CONTAINER, DIGEST_A, DIGEST_B, LAUNCH_PARTS, LOCATOR } from "../support/samples.ts";
import { combinations, fitting, rowsOf } from "../support/table.ts";

// settled turns, place, resident process, doubt, launch -> status, what must still show.
// "fits" is a process that takes the turn as it is; "other" was started with another launch.
const OUTLOOKS = rowsOf(`
  none  *                         *           *      *        NEW       -
  some  missing                   *           *      *        LOST      -
  some  running|stopped|unknown   none|other  sure   known    RESTORED  tail
  some  running|stopped|unknown   fits        sure   known    LIVE      -
  some  running|stopped|unknown   none        sure   unknown  RESTORED  tail
  some  running|stopped|unknown   fits|other  sure   unknown  LIVE      launch
  some  running|stopped|unknown   unseen      sure   *        ?         tail
  some  running|stopped|unknown   *           doubt  *        RESTORED  tail
`);

const MEMBER: MemberRow = {
  id: "m-1",
  sandbox: "box-1",
  cli: "opencode",
  options: OPTIONS,
  submissions: 3,
  settled_turns: 2,
  locator: LOCATOR,
  pending_locator: null,
  must_prove: null,
  created_at: AT,
};
const SANDBOX: SandboxRow = {
  id: "box-1",
  kind: "docker",
  directory: "/d",
  generation: 1,
  container: CONTAINER,
  wanted: "running",
  unready: null,
  journal_id: "j-1",
  applied: 4,
  created_at: AT,
};
const TURN: TurnRow = {
  id: "t-1",
  member: "m-1",
  number: 3,
  state: "delivered",
  text_sha256: DIGEST_A,
  text_bytes: 1,
  settlement: null,
  submitted_at: AT,
  ended_at: null,
  launch: DIGEST_B,
  queued_ms: 0,
};
const FITS = {
  tookLastTurn: true,
  launchDigest: DIGEST_B,
  launchParts: LAUNCH_PARTS,
  nativeId: LOCATOR.nativeId,
};
const OTHER = { ...FITS, launchDigest: DIGEST_A, launchParts: { ...LAUNCH_PARTS, model: DIGEST_B } };
const SIGHTS: Record<string, ResidentSight> = {
  none: { kind: "seen", resident: null },
  fits: { kind: "seen", resident: FITS },
  other: { kind: "seen", resident: OTHER },
  unseen: { kind: "unseen", why: "another controller owns the store" },
};

const FACTS: NextContextFacts = {
  member: MEMBER,
  sandbox: SANDBOX,
  place: "running",
  sight: { kind: "seen", resident: FITS },
  launch: { digest: DIGEST_B, parts: LAUNCH_PARTS },
  otherBuild: null,
  openTurn: null,
  unknownTurn: null,
  forkProblem: null,
};

test("every combination of facts has the outlook of the one row that fits it, with a reason", () => {
  for (const values of combinations([
    ["none", "some"],
    ["running", "stopped", "missing", "unknown"],
    Object.keys(SIGHTS),
    ["sure", "doubt"],
    ["known", "unknown"],
  ])) {
    const [settled, place, sight = "", doubt, launch] = values;
    const rows = fitting(OUTLOOKS, values);
    expect(rows, `one row for ${values.join(" ")}`).toHaveLength(1);
    const found = nextContext({
      ...FACTS,
      member: {
        ...MEMBER,
        ...(settled === "none" ? { settled_turns: 0, locator: null } : {}),
        must_prove: doubt === "doubt" ? "turn t-0 is unknown" : null,
      },
      place: place as NextContextFacts["place"],
      sight: SIGHTS[sight] as ResidentSight,
      launch: launch === "known" ? FACTS.launch : null,
    });
    const proof = found.toProve === null ? "-" : found.toProve.includes("msg_9") ? "tail" : "launch";
    expect([found.status ?? "?", proof], values.join(" ")).toEqual([rows[0]?.[5], rows[0]?.[6]]);
    expect(found.reason.length).toBeGreaterThan(5);
  }
});

test("the reason is the one that the turn itself would have", () => {
  expect(nextContext({ ...FACTS, sight: { kind: "seen", resident: OTHER } })).toMatchObject({
    status: "RESTORED",
    reason: "the model changed",
    launchChanges: ["model"],
  });
  expect(nextContext(FACTS)).toMatchObject({
    reason: "the resident process took the last turn",
    launchChanges: [],
  });
  const doubted = { ...MEMBER, must_prove: "turn t-0 is unknown" };
  expect(nextContext({ ...FACTS, member: doubted }).reason).toBe("turn t-0 is unknown");
});

test("a locator that waits for its verification is the one that counts, and one without a tail proves the session alone", () => {
  const pending = { ...LOCATOR, nativeId: "ses_7", tail: null };
  const found = nextContext({
    ...FACTS,
    member: { ...MEMBER, pending_locator: pending },
    sight: { kind: "seen", resident: null },
  });
  expect(found).toMatchObject({
    status: "RESTORED",
    toProve: "the CLI still has session ses_7 in /workspace",
  });
});

test("what is lost for certain needs no sandbox to say so", () => {
  const lost = (changes: Partial<NextContextFacts>) => nextContext({ ...FACTS, ...changes });
  expect(lost({ member: { ...MEMBER, locator: null } })).toMatchObject({ status: "LOST", toProve: null });
  expect(lost({ sandbox: { ...SANDBOX, container: null } })).toMatchObject({ status: "LOST" });
  const moved = { ...SANDBOX, container: { ...CONTAINER, generation: 2 } };
  expect(lost({ sandbox: moved }).reason).toContain("generation");
});

test("what would refuse a turn now is said beside the status", () => {
  const block = (changes: Partial<NextContextFacts>) =>
    nextContext({ ...FACTS, ...changes }).blocked?.code ?? null;
  expect(block({})).toBeNull();
  expect(block({ openTurn: TURN })).toBe("MEMBER_BUSY");
  expect(block({ unknownTurn: { ...TURN, state: "unknown" } })).toBe("INSPECTION_NEEDED");
  expect(block({ otherBuild: "image" })).toBe("ATTESTATION_FAILED");
  expect(block({ place: "missing" })).toBeNull();
  const fresh = { ...MEMBER, settled_turns: 0, locator: null };
  expect(block({ place: "missing", member: fresh })).toBe("CONTEXT_LOST");
});
