import { expect, test } from "vitest";
import { addText, endEvidence, noteOf, show, summary } from "../../../controller/cli/turn-display.ts";
import { createLiveTurn } from "../../../controller/turn-handle.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import type { ControlEvent } from "../../../protocol/events.ts";
import { keptOutput } from "../../support/cli.ts";
import { AT, EVENTS, EVIDENCE, SETTLEMENT } from "../../support/samples.ts";
import { until } from "../../support/until.ts";

function liveTurn() {
  const turn = createLiveTurn({ id: "t-1", member: "m-1", number: 1, abort: () => Promise.resolve() });
  let seq = 0;
  return {
    ...turn,
    say: (part: string, offset: number, text: string) =>
      turn.text({ kind: "delta", turn: "t-1", part, offset, text }),
    happen(event: ControlEvent) {
      seq += 1;
      turn.event({ seq, at: AT, event });
    },
  };
}

test("text streams as it comes, parts on lines of their own, and a snapshot that says the same adds nothing", async () => {
  const output = keptOutput();
  const turn = liveTurn();
  const shown = show(turn.handle, output);
  await Promise.resolve();
  turn.say("a", 0, "Hel");
  turn.say("a", 3, "lo");
  turn.text({ kind: "snapshot", turn: "t-1", part: "a", text: "Hello" });
  turn.say("b", 0, "World\n");
  turn.say("c", 0, "!");
  turn.settle(SETTLEMENT);
  expect(await shown).toBe(SETTLEMENT);
  expect(output.out()).toBe("Hello\nWorld\n!\n");
  expect(output.err()).toBe("[LIVE · completed, settled · by session.idle]\n");
});

test("text that replaces what was shown is said to do so", async () => {
  const output = keptOutput();
  const turn = liveTurn();
  const shown = show(turn.handle, output);
  await Promise.resolve();
  turn.say("a", 0, "Wrong");
  turn.text({ kind: "snapshot", turn: "t-1", part: "a", text: "Right" });
  turn.settle(SETTLEMENT);
  await shown;
  expect(output.out()).toBe("Wrong\nRight\n");
  expect(output.err()).toContain("[the text above is replaced]");
});

test("what an update adds", () => {
  expect(addText("", { from: 0, text: "a" })).toEqual({ text: "a", isReplaced: false, known: "a" });
  expect(addText("ab", { from: 2, text: "c" })).toEqual({ text: "c", isReplaced: false, known: "abc" });
  expect(addText("ab", { from: 1, text: "bc" })).toEqual({ text: "c", isReplaced: false, known: "abc" });
  expect(addText("ab", { from: 0, text: "" })).toEqual({ text: "", isReplaced: true, known: "" });
});

test("a turn without text gives no empty line", async () => {
  const output = keptOutput();
  const turn = liveTurn();
  turn.settle(SETTLEMENT);
  await show(turn.handle, output);
  expect(output.out()).toBe("");
});

test("with --json each update is a line of JSON, and the settlement comes once", async () => {
  const output = keptOutput({ isJson: true });
  const turn = liveTurn();
  const shown = show(turn.handle, output);
  await Promise.resolve();
  turn.happen(EVENTS["turn.context"]);
  turn.say("a", 0, "\u001b[2Jhi");
  turn.settle(SETTLEMENT);
  await shown;
  const lines = output.out().trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { kind: string }).kind)).toEqual([
    "event",
    "text",
    "settled",
  ]);
  expect(output.out()).not.toContain("\u001b");
  expect(output.err()).toBe("");
});

test("a turn that says nothing says what it waits for, and stops saying it at its end", async () => {
  const output = keptOutput();
  const turn = liveTurn();
  const shown = show(turn.handle, output);
  await until("the first note", () => output.err().includes("[starting the sandbox]"));
  turn.happen(EVENTS["turn.accepted"]);
  await until("the second", () => output.err().includes("[starting the agent]"));
  turn.happen(EVENTS["turn.delivered"]);
  await until("the third", () => output.err().includes("[waiting for the model]"));
  turn.settle(SETTLEMENT);
  await shown;
  expect(output.err().trimEnd().split("\n")).toHaveLength(4);
});

test("a controller that closes is the reader's error", async () => {
  const turn = liveTurn();
  const shown = show(turn.handle, keptOutput());
  turn.fail(new HoldfastError("STOPPED"));
  await expect(shown).rejects.toMatchObject({ code: "STOPPED" });
});

test("notes are for what somebody who waits wants to see; each is one line, whatever the sandbox puts in it", () => {
  const noted = Object.values(EVENTS).filter((event) => noteOf(event) !== null);
  expect(noted.map(({ type }) => type).sort()).toEqual([
    "turn.context",
    "turn.permission_asked",
    "turn.permission_closed",
    "turn.question_asked",
    "turn.question_closed",
    "turn.tool",
    "turn.waiting",
  ]);
  const tool = { ...EVENTS["turn.tool"], tool: "ba\u001b[2Jsh\nforged", title: "a\nb\u202e" };
  expect(noteOf(tool)).toBe("[ba[2Jsh forged running: a b]");
  expect(noteOf({ ...EVENTS["turn.tool"], title: "" })).toBe("[bash running]");
  expect(noteOf({ ...EVENTS["turn.permission_closed"], reply: null, result: "unresolved" })).toBe(
    "[permission -: unresolved]",
  );
  // A request of a Task child says which task wants it, and whose child that is.
  expect(noteOf(EVENTS["turn.question_asked"])).toBe("[question asked by task 'explore']");
  expect(noteOf({ ...EVENTS["turn.question_closed"], reply: "rejected", by: "deadline" })).toBe(
    "[question rejected at its limit: confirmed]",
  );
});

test("the summary says status, outcome, evidence, error and time in one line", () => {
  const timings = { ...SETTLEMENT.timings, totalMs: 1234 };
  expect(summary({ ...SETTLEMENT, timings })).toBe("[LIVE · completed, settled · by session.idle · 1.2 s]");
  const error = { code: "NATIVE_FAILED" as const, message: "a\nb\u001b[2J", details: {} };
  expect(
    summary({ ...SETTLEMENT, outcome: "failed", settled: false, context: null, evidence: [], error }),
  ).toBe("[- · failed, not settled · NATIVE_FAILED: a b[2J]");
});

test("a verdict rests on what the stream showed last in time", () => {
  const late = { ...EVIDENCE, what: "late_idle" };
  const host = { ...EVIDENCE, what: "not_submitted", source: "host" as const };
  expect(endEvidence([EVIDENCE, host, late])).toBe(EVIDENCE);
  expect(endEvidence([host, late])).toBe(host);
  expect(endEvidence([])).toBeUndefined();
});
