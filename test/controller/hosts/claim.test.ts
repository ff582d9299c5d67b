import { expect, test } from "vitest";
import { type ClaimFacts, claimProblem } from "../../../controller/hosts/claim.ts";

const DAY = 24 * 3600 * 1000;
const GOOD: ClaimFacts = {
  sandbox: "box",
  lease: { host: "a", fence: 7 },
  seenFence: 7,
  holder: { state: "removed", endedAt: 1000 },
  releasedTo: null,
  claimant: { id: "b", state: "active" },
  nowAt: 2000,
  retainMs: 30 * DAY,
};

const TABLE: Array<[string, Partial<ClaimFacts>, string | null]> = [
  ["behind its host's removal", {}, null],
  ["behind its host's termination", { holder: { state: "terminated", endedAt: 1000 } }, null],
  ["behind its host's moving out", { holder: { state: "moved_out", endedAt: 1000 } }, null],
  [
    "let go of for the claimant, by a host that lives",
    { holder: { state: "active", endedAt: null }, releasedTo: "b" },
    null,
  ],
  [
    "the claimant's own",
    { lease: { host: "b", fence: 7 }, holder: { state: "active", endedAt: null } },
    null,
  ],
  ["while its host is active", { holder: { state: "active", endedAt: null } }, "HOST_ALIVE"],
  ["while its host drains", { holder: { state: "draining", endedAt: null } }, "HOST_ALIVE"],
  ["at the last moment of its lease", { nowAt: 1000 + 30 * DAY }, null],
  ["behind the end of its lease", { nowAt: 1001 + 30 * DAY }, "LEASE_ENDED"],
  ["of an end that nobody dated", { holder: { state: "removed", endedAt: null } }, "LEASE_ENDED"],
  ["that another one was quicker to take", { lease: { host: "c", fence: 8 } }, "FENCED"],
  ["that the same host took again", { lease: { host: "a", fence: 8 } }, "FENCED"],
  ["on its way to a third host", { releasedTo: "c" }, "FENCED"],
  ["by a host that drains", { claimant: { id: "b", state: "draining" } }, "HOST_DRAINING"],
  ["by a host that was removed", { claimant: { id: "b", state: "removed" } }, "HOST_ENDED"],
];

for (const [what, changes, code] of TABLE) {
  test(`A8: a sandbox ${what} is ${code === null ? "claimed" : `refused with ${code}`}`, () => {
    expect(claimProblem({ ...GOOD, ...changes })?.code ?? null).toBe(code);
  });
}
