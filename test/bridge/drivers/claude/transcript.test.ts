import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { proveTail } from "../../../../bridge/drivers/claude/transcript.ts";

interface Row {
  type: string;
  uuid?: string;
  parentUuid?: string | null;
  [key: string]: unknown;
}

const row = (uuid: string, parentUuid: string | null, more: Partial<Row> = {}): Row => ({
  type: "user",
  uuid,
  parentUuid,
  ...more,
});
const answer = (uuid: string, parentUuid: string, message = uuid): Row =>
  row(uuid, parentUuid, { type: "assistant", message: { id: message } });
const lines = (...rows: Row[]) => `${rows.map((each) => JSON.stringify(each)).join("\n")}\n`;
const prove = (text: string, id: string) => proveTail(text, { role: "assistant", id }).kind;

/** Two turns, as the CLI writes them. */
const PLAIN = [
  row("u1", null),
  answer("a1", "u1"),
  { type: "last-prompt", leafUuid: "a1" },
  row("u2", "a1"),
  answer("a2", "u2"),
  { type: "last-prompt", leafUuid: "a2" },
  { type: "mode" },
];

test("law 8: the tail is proven when the CLI continues from it or from what came behind it", () => {
  expect(prove(lines(...PLAIN), "a2")).toBe("proven");
  expect(prove(lines(...PLAIN), "a1")).toBe("proven");
  expect(prove(lines(...PLAIN, row("u3", "a2")), "a2")).toBe("proven");
  expect(prove(lines(...PLAIN), "a9")).toBe("absent");
});

test("P23: a blank history, a cut last line and two joined records are what the loader makes of them, and no crash", () => {
  expect(prove("", "a2")).toBe("absent");
  expect(prove("\n\n", "a2")).toBe("absent");
  const text = lines(...PLAIN.slice(0, 5));
  for (let cut = 0; cut < text.length; cut += 1) {
    const isWhole = text.slice(0, cut).includes(JSON.stringify(PLAIN[4]));
    expect(prove(text.slice(0, cut), "a2"), `cut at ${cut}`).toBe(isWhole ? "proven" : "absent");
  }
  const torn = text.slice(0, text.lastIndexOf('"assistant"'));
  expect(prove(`${torn}${JSON.stringify(answer("a2", "u2"))}\n`, "a2")).toBe("absent");
  expect(prove(`${text}{"type":"assistant","uu`, "a2")).toBe("proven");
  expect(prove(`${text}not JSON\n[1]\n"x"\n{"uuid":7}\n`, "a2")).toBe("proven");
});

test("P23: a history that lost a row before its tail is not whole, whichever that was", () => {
  for (const lost of ["u1", "a1", "u2"]) {
    const rest = PLAIN.filter((each) => !("uuid" in each) || each.uuid !== lost);
    expect(prove(lines(...rest), "a2"), lost).toBe("without its beginning");
  }
  const compacted = [
    row("b", null, { type: "system", subtype: "compact_boundary", logicalParentUuid: "gone" }),
    row("u3", "b"),
    answer("a3", "u3"),
  ];
  expect(prove(lines(...compacted), "a3")).toBe("proven");
});

test("a branch that died is told from the history", () => {
  // A second process has continued from the first turn.
  expect(prove(lines(...PLAIN.slice(0, 5), row("x2", "a1"), answer("y2", "x2")), "a2")).toBe(
    "on a dead branch",
  );
  // The last row does not descend from the leaf that was named: the named one counts.
  const aside = [...PLAIN, row("x3", "u1")];
  expect(prove(lines(...aside), "a2")).toBe("proven");
  // One that was named on purpose counts also when later rows descend from it.
  const rewound = [...PLAIN, { type: "last-prompt", leafUuid: "a1", explicit: true }];
  expect(prove(lines(...rewound), "a2")).toBe("on a dead branch");
  expect(prove(lines(...rewound), "a1")).toBe("proven");
});

test("D5: the recorded damage of a retry is seen: the reply stands on a branch that nothing continues from", () => {
  const recorded = readFileSync(
    new URL("../../../captures/claude/retry-transcript-chain.ndjson", import.meta.url),
    "utf8",
  );
  expect(prove(recorded, "5fb2647d-dbf9-4cde-97cf-068557172b10")).toBe("on a dead branch");
  expect(prove(recorded, "f088743d-f50c-42d4-9da5-1108569f3133")).toBe("proven");
});

test("rows of one message are loaded together: each of them is in the history when one is", () => {
  const parallel = [
    row("u1", null),
    answer("a1", "u1", "m1"),
    answer("a2", "a1", "m1"),
    row("r1", "a1"),
    answer("a3", "r1", "m2"),
  ];
  expect(prove(lines(...parallel), "a2")).toBe("proven");
});

test("subagents' rows are no leaf, and what stands before a compaction is reached through its boundary", () => {
  const side = [...PLAIN.slice(0, 5), row("s1", null, { isSidechain: true })];
  expect(prove(lines(...side), "a2")).toBe("proven");
  const compacted = [
    ...PLAIN,
    row("b", null, { type: "system", subtype: "compact_boundary", logicalParentUuid: "a2" }),
    row("u3", "b"),
  ];
  expect(prove(lines(...compacted), "a2")).toBe("proven");
});

test("law 13: a circle ends", () => {
  expect(prove(lines(row("a", "b"), row("b", "a"), answer("c", "b"), row("d", null)), "c")).toBe(
    "on a dead branch",
  );
  expect(prove(lines(answer("c", "c")), "x")).toBe("absent");
});
