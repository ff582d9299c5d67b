import { expect, test } from "vitest";
import { decideFollow } from "../../../controller/store/follow.ts";
import { combinations, fitting, rowsOf } from "../../support/table.ts";

// the store knows which journal, applied against acked (4), applied against seq (8) -> goes on from, lost
const FOLLOWS = rowsOf(`
  none   *      *      4        set_back
  other  *      *      4        journal
  same   below  below  4        set_back
  same   above  below  applied  -
  same   above  above  8        journal
`);
const APPLIED: Record<string, number> = { "below below": 2, "above below": 6, "above above": 11 };

test("every combination of what store and bridge have is decided as the one row that fits it", () => {
  for (const values of combinations([
    ["none", "other", "same"],
    ["below", "above"],
    ["below", "above"],
  ])) {
    const [known, toAcked = "", toSeq = ""] = values;
    const applied = APPLIED[`${toAcked} ${toSeq}`];
    // Nothing is below what was dropped and above what is there.
    if (applied === undefined) continue;
    const rows = fitting(FOLLOWS, values);
    expect(rows, values.join(" ")).toHaveLength(1);
    const journalId = known === "none" ? null : known === "same" ? "j-1" : "j-0";
    const decision = decideFollow({ journalId, applied }, { journalId: "j-1", epoch: 3, acked: 4, seq: 8 });
    const [, , , from, lost] = rows[0] ?? [];
    expect(decision.applied).toBe(from === "applied" ? applied : Number(from));
    expect(decision.lost?.what ?? "-").toBe(
      { set_back: "store_set_back", journal: "journal_lost", "-": "-" }[lost ?? ""],
    );
    expect(decision.lost?.reason.length ?? 99).toBeGreaterThan(10);
  }
});

test("a first journal of which nothing was dropped has lost nothing", () => {
  const journal = { journalId: "j-1", epoch: 1, acked: 0, seq: 8 };
  expect(decideFollow({ journalId: null, applied: 0 }, journal)).toEqual({ applied: 0, lost: null });
});

test("at the bounds themselves nothing is lost", () => {
  const journal = { journalId: "j-1", epoch: 1, acked: 4, seq: 8 };
  for (const applied of [4, 8])
    expect(decideFollow({ journalId: "j-1", applied }, journal)).toEqual({ applied, lost: null });
});
