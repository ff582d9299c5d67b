import { expect, test } from "vitest";
import {
  Entries,
  hasModel,
  readNative,
  State,
  textOf,
} from "../../../../bridge/drivers/pi/native-message.ts";
import { captureNames, rowsOf } from "./captured.ts";

/** What pi prints and we have no use for. */
const NOT_READ = ["turn_start", "turn_end", "queue_update", "entry_appended", "auto_retry_end"];

test("every recorded message is read, but for the kinds that we have no use for", () => {
  const strange = captureNames().flatMap((name) =>
    rowsOf(name).flatMap(({ ch, d }) =>
      ch === "stdout" && readNative(d) === null && !NOT_READ.includes(String(d.type)) ? [d] : [],
    ),
  );
  expect(strange).toEqual([]);
});

test("the recorded answers to get_state and get_entries have the shapes that are read", () => {
  const answers = captureNames().flatMap((name) => rowsOf(name).filter(({ d }) => d.type === "response"));
  const of = (command: string) => answers.filter(({ d }) => d.command === command).map(({ d }) => d.data);
  expect(of("get_state").length).toBeGreaterThan(3);
  for (const data of of("get_state")) expect(State.safeParse(data).success).toBe(true);
  expect(of("get_entries").length).toBeGreaterThan(3);
  for (const data of of("get_entries")) expect(Entries.safeParse(data).success).toBe(true);
});

test("an unknown kind and a known one of another shape are none of ours, and nothing throws", () => {
  expect(readNative({ type: "brand_new", more: 1 })).toBeNull();
  expect(readNative({})).toBeNull();
  expect(readNative({ type: "message_end", message: "text" })).toBeNull();
  expect(readNative({ type: "tool_execution_start", toolCallId: 7, toolName: "bash" })).toBeNull();
  expect(readNative({ type: "auto_retry_start", attempt: -1, delayMs: 1 })).toBeNull();
});

test("unknown fields beside the known ones do no harm", () => {
  expect(readNative({ type: "agent_settled", aborted: true, cause: "x" })).toEqual({
    type: "agent_settled",
    aborted: true,
  });
});

test("a message's text is its text blocks, joined; a string is one", () => {
  expect(textOf({ role: "user", content: "as it is" })).toBe("as it is");
  const blocks = [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }];
  expect(textOf({ role: "user", content: blocks })).toBe("ab");
  expect(textOf({ role: "user", content: null })).toBe("");
  expect(textOf({ role: "user" })).toBe("");
});

test("the model is ours by its name and our provider's", () => {
  const state = (model: State["model"]): State => ({
    sessionId: "s",
    isStreaming: false,
    isCompacting: false,
    messageCount: 0,
    pendingMessageCount: 0,
    model,
  });
  expect(hasModel(state({ id: "m1", provider: "holdfast" }), "m1")).toBe(true);
  expect(hasModel(state({ id: "m1", provider: "openai" }), "m1")).toBe(false);
  expect(hasModel(state({ id: "m2", provider: "holdfast" }), "m1")).toBe(false);
  expect(hasModel(state(undefined), "m1")).toBe(false);
});
