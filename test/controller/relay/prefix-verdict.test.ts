import fc from "fast-check";
import { expect, test } from "vitest";
import { comparePrefix, PrefixVerdict, UNKNOWN_CHAIN } from "../../../controller/relay/prefix-verdict.ts";
import { chatBody, digestOf, tool } from "./calls.ts";

const of = (texts: readonly string[], more: object = {}) => digestOf(chatBody(texts, more));
const compare = (before: ReturnType<typeof of>, after: ReturnType<typeof of>) => {
  const { verdict, breaks, blocksBefore, equalBlocks } = comparePrefix(before, after);
  return { verdict, breaks, blocksBefore, equalBlocks };
};

test("a history that went on is equal, and so is the very same request again", () => {
  const before = of(["a", "b", "c"]);
  const equal = { verdict: "equal", breaks: [], blocksBefore: 3, equalBlocks: 3 };
  expect(compare(before, of(["a", "b", "c", "d", "e"]))).toEqual(equal);
  expect(compare(before, of(["a", "b", "c"]))).toEqual(equal);
});

test("a block that changed, went or came between is a break of the history", () => {
  const before = of(["a", "b", "c"]);
  for (const [after, equalBlocks] of [
    [of(["a", "B", "c", "d"]), 1],
    [of(["a", "b"]), 2],
    [of(["new", "a", "b", "c"]), 0],
    [of([]), 0],
  ] as const)
    expect(compare(before, after)).toEqual({
      verdict: "history",
      breaks: ["history"],
      blocksBefore: 3,
      equalBlocks,
    });
});

test("system, tools and parameters are told by name, the first that a provider reads first", () => {
  const before = of(["a"]);
  const body = chatBody(["a", "b"]) as { messages: object[] };
  const system = {
    ...body,
    messages: [{ role: "system", content: "You are another." }, ...body.messages.slice(1)],
  };
  expect(compare(before, digestOf(system)).breaks).toEqual(["system"]);
  expect(compare(before, of(["a"], { tools: [tool("edit")] })).breaks).toEqual(["tools"]);
  expect(compare(before, of(["a"], { tools: [tool("bash"), tool("edit")] })).breaks).toEqual(["tools"]);
  expect(compare(before, of(["a"], { temperature: 1 })).breaks).toEqual(["parameters"]);
  const all = { ...system, tools: [], temperature: 1, messages: [{ role: "system", content: "x" }] };
  expect(compare(before, digestOf(all))).toMatchObject({
    verdict: "tools",
    breaks: ["tools", "system", "parameters", "history"],
  });
});

test("a CLI's summary in the place of the history is a compaction, once", () => {
  const summary =
    "This session is being continued from a previous conversation that ran out of context. Summary: …";
  const before = of(["a", "b", "c", "d", "e"]);
  const compacted = of([summary, "e", "f"]);
  expect(compare(before, compacted).verdict).toBe("compaction");
  expect(compare(compacted, of([summary, "e", "f", "g"])).verdict).toBe("equal");
  expect(compare(compacted, of([summary, "f"])).verdict).toBe("history");
  expect(compare(compacted, of(["f", "g", summary])).verdict).toBe("history");
  expect(compare(of(["a", "b", summary]), of(["c", "b", summary, "d"])).verdict).toBe("history");
  expect(compare(before, of(["a", "b", "c", "d", "e", summary])).verdict).toBe("equal");
});

test("a compaction explains what changed before the history, and hides none of it", () => {
  const summary = "Another language model started to solve this problem and produced a summary";
  const after = digestOf({
    ...chatBody([]),
    messages: [
      { role: "system", content: "moved" },
      { role: "user", content: summary },
    ],
  });
  const { verdict, breaks } = comparePrefix(of(["a", "b"]), after);
  expect({ verdict, breaks }).toEqual({ verdict: "compaction", breaks: ["system", "compaction"] });
});

test("a second compaction is one too, where the CLI puts the same question before each summary", () => {
  const question = "What did we do so far?";
  const [first, second] = [of([question, "summary 1", "a", "b", "c"]), of([question, "summary 2", "c", "d"])];
  expect(compare(of(["x", "y", "z"]), first).verdict).toBe("compaction");
  expect(compare(first, second)).toMatchObject({ verdict: "compaction", equalBlocks: 1 });
  expect(compare(second, of([question, "summary 2", "C"])).verdict).toBe("history");
});

test("a history that is gone without a summary is no compaction", () => {
  expect(compare(of(["a", "b", "c"]), of(["d"])).verdict).toBe("history");
});

test("equal raw bytes are counted in whole pieces, of the same request to its end", () => {
  const text = "x".repeat(3000);
  const before = of([text, "b"]);
  const raw = (after: ReturnType<typeof of>) => comparePrefix(before, after).equalRawBytes;
  expect(raw(before)).toBe(before.bodyBytes);
  expect(raw(of([text, "b", "c"]))).toBeGreaterThanOrEqual(2048);
  expect(raw(of([text, "b", "c"])) % 1024).toBe(0);
  expect(raw(digestOf({ ...chatBody([text, "b"]), model: "m2" }))).toBe(0);
  expect(raw({ ...of([text, "c"]), rawPieceBytes: 512 })).toBe(0);
});

test("marks that move along leave the blocks equal and the raw bytes not", () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const body = (marked: number, length: number) => ({
    model: "m",
    system: [{ type: "text", text: "s", ...mark }],
    tools: [{ name: "Bash" }],
    messages: Array.from({ length }, (_, at) => ({
      role: at % 2 === 0 ? "user" : "assistant",
      content: at === marked ? [{ type: "text", text: `t${at}`.repeat(600), ...mark }] : `t${at}`.repeat(600),
    })),
  });
  const [before, after] = [digestOf(body(0, 1), {}, "messages"), digestOf(body(2, 3), {}, "messages")];
  expect(comparePrefix(before, after)).toMatchObject({ verdict: "equal", equalBlocks: 1, equalRawBytes: 0 });
});

test("a verdict is what its schema says", () => {
  for (const verdict of [UNKNOWN_CHAIN, comparePrefix(of(["a"]), of(["b"]))])
    expect(PrefixVerdict.parse(verdict)).toEqual(verdict);
});

test("equal means: every earlier block leads the later request, whatever the texts", () => {
  const texts = fc.array(fc.string({ maxLength: 8 }), { maxLength: 8 });
  fc.assert(
    fc.property(texts, texts, (before, after) => {
      const isPrefix = before.every((text, at) => after[at] === text);
      const { verdict, equalBlocks } = compare(of(before), of(after));
      expect(verdict).toBe(isPrefix ? "equal" : "history");
      expect(equalBlocks <= Math.min(before.length, after.length)).toBe(true);
      expect(after.slice(0, equalBlocks)).toEqual(before.slice(0, equalBlocks));
    }),
    { numRuns: 300 },
  );
});
