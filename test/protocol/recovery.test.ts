import { expect, test } from "vitest";
import {
  decideRecovery,
  type History,
  type JournalAnswer,
  type Place,
  REVIVALS,
  type Reach,
  type RecoveryFacts,
} from "../../protocol/recovery.ts";
import { combinations, fitting, rowsOf } from "../support/table.ts";

// reach, the bridge's answer, place, wanted, starts so far, overdue, history -> decision
const DECISIONS = rowsOf(`
  unsent                            *               *               *     *     *     *                 wait
  handed_over|submitting|delivered  active          *               *     *     *     *                 wait
  handed_over|submitting|delivered  ended           *               *     *     *     *                 wait
  handed_over|submitting|delivered  never_received  *               *     *     *     *                 not_sent
  handed_over|submitting|delivered  forgotten       *               *     *     *     *                 unknown
  handed_over                       interrupted     *               *     *     *     *                 not_sent
  submitting                        interrupted     *               *     *     *     unasked           ask_history
  submitting                        interrupted     *               *     *     *     absent            not_sent
  submitting                        interrupted     *               *     *     *     present|unclear   unknown
  delivered                         interrupted     *               *     *     *     *                 unknown
  handed_over|submitting|delivered  none            never_made      *     *     *     *                 not_sent
  handed_over|submitting|delivered  none            missing         *     *     *     *                 unknown
  handed_over|submitting|delivered  none            unusable        *     *     *     *                 unknown
  handed_over|submitting|delivered  none            stopped         no    *     *     *                 unknown
  handed_over|submitting|delivered  none            stopped         yes   few   *     *                 revive
  handed_over|submitting|delivered  none            stopped         yes   many  *     *                 unknown
  handed_over|submitting|delivered  none            running|unseen  *     *     no    *                 wait
  handed_over|submitting|delivered  none            running|unseen  *     *     yes   *                 unknown
`);

const FACTS: RecoveryFacts = {
  reach: "handed_over",
  journal: null,
  place: "running",
  isWanted: true,
  revivals: 0,
  isOverdue: false,
  history: null,
};

test("every combination of record, journal, sandbox and history is decided as the one row that fits it, with a reason", () => {
  for (const values of combinations([
    ["unsent", "handed_over", "submitting", "delivered"],
    ["never_received", "active", "interrupted", "ended", "forgotten", "none"],
    ["never_made", "running", "stopped", "missing", "unusable", "unseen"],
    ["yes", "no"],
    ["few", "many"],
    ["yes", "no"],
    ["absent", "present", "unclear", "unasked"],
  ])) {
    const [reach, journal, place, isWanted, revivals, isOverdue, history] = values;
    const rows = fitting(DECISIONS, values);
    expect(rows, `one row for ${values.join(" ")}`).toHaveLength(1);
    const decision = decideRecovery({
      reach: reach as Reach,
      journal: journal === "none" ? null : (journal as JournalAnswer),
      place: place as Place,
      isWanted: isWanted === "yes",
      revivals: revivals === "few" ? REVIVALS - 1 : REVIVALS,
      isOverdue: isOverdue === "yes",
      history: history === "unasked" ? null : (history as History),
    });
    const said = decision.kind === "end" ? decision.outcome : decision.kind;
    expect(said, values.join(" ")).toBe(rows[0]?.[7]);
    expect(decision.reason.length, values.join(" ")).toBeGreaterThan(10);
  }
});

test("each end names what it rests on, and different ends different things", () => {
  const ends = [
    { journal: "never_received" },
    { journal: "forgotten" },
    { journal: "interrupted" },
    { journal: "interrupted", reach: "delivered" },
    { journal: "interrupted", reach: "submitting", history: "absent" },
    { journal: "interrupted", reach: "submitting", history: "present" },
    { place: "never_made" },
    { place: "missing" },
    { place: "unusable" },
    { isOverdue: true },
  ] as const;
  const names = ends.map((changes) => {
    const decision = decideRecovery({ ...FACTS, ...changes });
    return decision.kind === "end" ? decision.what : decision.kind;
  });
  expect(names).toEqual([
    "never_received",
    "forgotten",
    "bridge_ended",
    "bridge_ended_after_delivery",
    "message_absent",
    "message_present",
    "never_started",
    "sandbox_gone",
    "sandbox_unusable",
    "bridge_silent",
  ]);
});

test("it is started again so many times in a row and no more", () => {
  const tries = Array.from({ length: REVIVALS + 2 }, (_, revivals) =>
    decideRecovery({ ...FACTS, place: "stopped", revivals }),
  ).map(({ kind }) => kind);
  expect(tries).toEqual([...Array.from({ length: REVIVALS }, () => "revive"), "end", "end"]);
});
