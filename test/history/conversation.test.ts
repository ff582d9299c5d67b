/** What a request must hold of a conversation: each thing that was said, once, and what each CLI changes by itself. */
import { expect, test } from "vitest";
import { type Entry, expectedRows } from "../support/history/conversation.ts";
import { CLAUDE_HISTORIES, OPENCODE_HISTORY, PI_HISTORY } from "../support/history/native.ts";

const shown = (native: Parameters<typeof expectedRows>[0], entries: readonly Entry[]) =>
  expectedRows(native, entries).map(
    ({ role, parts }) =>
      `${role}: ${parts.map((part) => (typeof part === "string" ? part : `<${part.native}>`)).join("|")}`,
  );
const turn = (text: string, ...replies: string[]): Entry => ({
  kind: "turn",
  text,
  replies: replies.map((reply) => ({ text: reply })),
});

test("turns stand one behind the other, as often as they were said", () => {
  const rows = shown(PI_HISTORY, [turn("U1", "R1"), turn("U1", "R1"), turn("U2")]);
  expect(rows).toEqual(["user: U1", "assistant: R1", "user: U1", "assistant: R1", "user: U2"]);
});

test("a call and its result stand behind the text before it, and results name their calls", () => {
  const call = { name: "bash", arguments: {} };
  const result = { native: "output", form: /^done$/ };
  const entries: Entry[] = [
    { kind: "turn", text: "U1", replies: [{ text: "", call, result }, { text: "R1" }] },
    { kind: "turn", text: "U2", replies: [{ text: "B2", call, result }] },
  ];
  expect(expectedRows(PI_HISTORY, entries)).toEqual([
    { role: "user", parts: ["U1"] },
    { role: "assistant", parts: [], calls: [call] },
    { role: "tool", parts: [result], answers: [0] },
    { role: "assistant", parts: ["R1"] },
    { role: "user", parts: ["U2"] },
    { role: "assistant", parts: ["B2"], calls: [call] },
    { role: "tool", parts: [result], answers: [1] },
  ]);
});

test("a failed turn's text stands alone, or goes with the next one where the CLI joins them", () => {
  const entries: Entry[] = [turn("U1", "R1"), { kind: "failed", text: "F" }, turn("U2")];
  expect(shown(OPENCODE_HISTORY, entries).slice(2)).toEqual(["user: F", "user: U2"]);
  expect(shown(CLAUDE_HISTORIES["2.1.220"], entries).slice(2)).toEqual(["user: F\n|U2"]);
});
