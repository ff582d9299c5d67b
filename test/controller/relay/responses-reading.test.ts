import { expect, test } from "vitest";
import { readResponses } from "../../../controller/relay/responses-reading.ts";

function read(...events: unknown[]) {
  const reading = readResponses();
  for (const event of events) reading.event(event);
  return reading.result();
}

const usage = { input_tokens: 9, output_tokens: 2 };

test("completed, incomplete and failed end the answer, each with its figures and its reason", () => {
  const end = (type: string, response: object) => read({ type, response: { usage, ...response } });
  expect(end("response.completed", { status: "completed", error: null })).toMatchObject({
    isTerminal: true,
    isError: false,
    stopReason: "completed",
    usage: { state: "known" },
  });
  const details = { incomplete_details: { reason: "max_output_tokens" } };
  expect(end("response.incomplete", { status: "incomplete", ...details })).toMatchObject({
    isTerminal: true,
    stopReason: "max_output_tokens",
  });
  const error = { code: "server_is_overloaded", message: "later" };
  expect(end("response.failed", { status: "failed", error })).toMatchObject({
    isTerminal: true,
    isError: true,
    stopReason: "failed",
    usage: { state: "known" },
  });
});

test("a failed answer that states nothing is at its end, and unknown", () => {
  const ended = read({
    type: "response.failed",
    response: { status: "failed", usage: null, error: { code: "x" } },
  });
  expect(ended).toMatchObject({ isTerminal: true, usageObserved: false, usage: { state: "unknown" } });
});

test("an error event is no end, and its figures are none", () => {
  const ended = read({ type: "error", code: "x", response: { id: "resp_9", usage } });
  expect(ended).toMatchObject({ isError: true, isTerminal: false, usageObserved: false, providerId: null });
});

test("figures of an answer that still runs are seen and are not final", () => {
  const running = read({
    type: "response.in_progress",
    response: { id: "resp_1", status: "in_progress", usage },
  });
  expect(running).toMatchObject({ usageObserved: true, usage: { state: "unknown" }, providerId: "resp_1" });
});

test("whole answers: an ended one counts, one that still runs does not, an error is one", () => {
  const whole = (value: unknown) => {
    const reading = readResponses();
    reading.whole(value);
    return reading.result();
  };
  expect(whole({ status: "completed", error: null, usage })).toMatchObject({
    isTerminal: true,
    usage: { state: "known" },
  });
  expect(whole({ status: "in_progress", usage })).toMatchObject({
    isTerminal: false,
    usage: { state: "unknown" },
  });
  expect(whole({ error: { message: "no" }, usage })).toMatchObject({ isError: true, usageObserved: false });
});
