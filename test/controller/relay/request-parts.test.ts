import { expect, test } from "vitest";
import {
  bodyOf,
  contentBlocks,
  listOf,
  messageBlocks,
  parametersOf,
  unmarked,
} from "../../../controller/relay/request-parts.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const text = (value: string, more: object = {}) => ({ type: "text", text: value, ...more });
const values = (message: unknown) => messageBlocks(message).map(({ value }) => value);

test("a body is an object, a list is a list, anything else is none", () => {
  expect(bodyOf({ a: 1 })).toEqual({ a: 1 });
  for (const value of [null, undefined, 1, "a", [1]]) expect(bodyOf(value)).toBeNull();
  expect(listOf([1])).toEqual([1]);
  for (const value of [null, undefined, 1, "a", { 0: 1 }]) expect(listOf(value)).toEqual([]);
});

test("marks for a cache are left out; whatever else stands beside them stays", () => {
  expect(unmarked({ ...text("a"), ...MARK })).toEqual(text("a"));
  for (const value of [null, 1, "a", [MARK], { a: MARK }]) expect(unmarked(value)).toEqual(value);
});

test("a text alone is one block, as a string or as a list, marked or not", () => {
  const one = [text("a")];
  expect(contentBlocks("a")).toEqual(one);
  expect(contentBlocks([text("a")])).toEqual(one);
  expect(contentBlocks([text("a", MARK)])).toEqual(one);
  expect(contentBlocks(null)).toEqual([]);
});

test("parameters are what is neither a part nor about the call alone", () => {
  const body = {
    model: "m",
    messages: [],
    max_tokens: 5,
    stream: true,
    stream_options: {},
    metadata: {},
    thinking: {},
  };
  expect(parametersOf(body, ["model", "messages"])).toEqual({ max_tokens: 5, thinking: {} });
});

test("a block behind others leaves those before it as they were", () => {
  const before = values({ role: "user", content: "first" });
  const after = values({ role: "user", content: [text("first"), text("second", MARK)] });
  expect(after.slice(0, 1)).toEqual(before);
  expect(after).toHaveLength(2);
  const called = values({ role: "assistant", content: "first", tool_calls: [{ id: "c" }] });
  expect(called).toHaveLength(2);
  expect(called[0]).toEqual(values({ role: "assistant", content: "first" })[0]);
});

test("two messages are not one with both blocks, and the role belongs to the block", () => {
  const two = [...values({ role: "user", content: "a" }), ...values({ role: "user", content: "b" })];
  expect(two).not.toEqual(values({ role: "user", content: [text("a"), text("b")] }));
  expect(values({ role: "user", content: "a" })).not.toEqual(values({ role: "assistant", content: "a" }));
  expect(values({ role: "tool", content: "a", tool_call_id: "1" })).not.toEqual(
    values({ role: "tool", content: "a", tool_call_id: "2" }),
  );
});

test("what is no message is a block as it is; a message without content is one too", () => {
  expect(values("odd")).toEqual(["odd"]);
  expect(values({ role: "user" })).toHaveLength(1);
  expect(values({ role: "assistant", content: null, tool_calls: [] })).toHaveLength(2);
});

test.for([
  "This session is being continued from a previous conversation that ran out of context.",
  "Another language model started to solve this problem and produced a summary",
  "The conversation history before this point was compacted into the following summary:",
])("a CLI's own summary is known: %s", (start) => {
  const found = (message: unknown) => messageBlocks(message).map(({ isSummary }) => isSummary);
  expect(found({ role: "user", content: `${start} and so on` })).toEqual([true]);
  expect(found({ role: "user", content: [text("else"), { type: "input_text", text: start }] })).toEqual([
    false,
    true,
  ]);
  expect(found({ role: "user", content: `I ask: ${start}` })).toEqual([false]);
});
