import { expect, test } from "vitest";
import { createTurnView, type ViewEnd } from "../../../../bridge/drivers/pi/turn-view.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { behindPrompt } from "./captured.ts";

/** A recorded turn through the view: its end, what was said, and what it told on its way. */
function replay(capture: string, text: string) {
  const view = createTurnView(text);
  const output = createTurnOutput();
  const told: string[] = [];
  const ends: ViewEnd[] = [];
  for (const message of behindPrompt(capture, text)) {
    for (const change of view.take(message)) {
      if (change.kind === "text") output.put(change.part, change.from, change.text);
      else if (change.kind === "withdrawn") output.withdraw(change.part);
      else if (change.kind === "settled") ends.push(change.end);
      else if (change.kind === "tool") told.push(`${change.tool} ${change.status}`);
      else if (change.kind === "waiting") told.push(`waiting ${change.attempt} ${change.delayMs}`);
      else if (change.kind === "own_event") told.push("own");
    }
  }
  return { ends, parts: output.parts(), told };
}

test("a 500 that is tried again: agent_end is no end, the retry is told, and the answer completes", () => {
  const { ends, parts, told } = replay("errors", "E1 500");
  expect(ends).toMatchObject([{ status: "completed", error: null }]);
  expect(parts).toEqual(["R1"]);
  expect(told).toEqual(["own", "waiting 1 2000"]);
});

test("a 400 is a failed turn with the provider's words", () => {
  const { ends, parts } = replay("errors", "E3 400");
  expect(ends).toMatchObject([{ status: "failed", error: { message: expect.stringContaining("bad") } }]);
  expect(parts).toEqual([]);
});

test("what a cut attempt had said is not in the answer", () => {
  const { ends, parts, told } = replay("errors", "E4 cut");
  expect(ends).toMatchObject([{ status: "completed" }]);
  expect(parts).toEqual(["R4"]);
  expect(told).toEqual(["own", "waiting 1 2000"]);
});

test("queued work goes on in the same run: one end, behind all of it", () => {
  const { ends, parts } = replay("busy", "U1");
  expect(ends).toHaveLength(1);
  expect(parts).toEqual(["slow slow slow slow slow", "R2"]);
});

test("tools, permissions and a question: the blocked call has failed, the turn completes", () => {
  const { ends, parts, told } = replay("requests", "Ask.");
  expect(ends).toMatchObject([{ status: "completed", error: null }]);
  expect(parts).toEqual(["First. ", "Done it."]);
  expect(told).toEqual([
    "own",
    "bash running",
    "bash running",
    "bash failed",
    "bash completed",
    "question running",
    "question completed",
  ]);
});

test("an abort out of a dialog is an aborted turn", () => {
  const { ends, parts } = replay("abort-dialog", "Ask.");
  expect(ends).toMatchObject([{ status: "aborted", error: null }]);
  expect(parts).toEqual([]);
});

test("an abort in the wait for a retry is an aborted turn and not a failed one", () => {
  const { ends } = replay("abort-retry", "Fail.");
  expect(ends).toMatchObject([{ status: "aborted", error: null }]);
});

test("an overflow is compacted and tried again: the failed attempt decides nothing, the summary's tokens count", () => {
  const { ends, parts } = replay("overflow", "Too long.");
  expect(ends).toMatchObject([{ status: "completed", error: null }]);
  expect(ends[0]?.usage).toMatchObject({ source: "cli", inputTokens: 200, outputTokens: 20 });
  expect(parts).toEqual(["After."]);
});

test("a turn of another text never begins", () => {
  const view = createTurnView("Another text.");
  for (const message of behindPrompt("requests", "Ask.")) expect(view.take(message)).toEqual([]);
});
