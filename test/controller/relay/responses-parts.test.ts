import { expect, test } from "vitest";
import { partsOfResponses } from "../../../controller/relay/responses-parts.ts";

test("instructions, tools, parameters and items are told apart, and the key names the session", () => {
  const parts = partsOfResponses({
    model: "gpt-x",
    instructions: "You are one.",
    input: [
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "a" },
          { type: "input_text", text: "b" },
        ],
      },
      { type: "reasoning", encrypted_content: "zzz", summary: [] },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output", call_id: "c", output: "out" },
    ],
    tools: [{ type: "function", name: "f" }],
    store: false,
    stream: true,
    client_metadata: { turn: "x" },
    prompt_cache_key: "0198-thread",
  });
  expect(parts).toMatchObject({
    model: "gpt-x",
    system: ["You are one."],
    tools: [{ type: "function", name: "f" }],
    parameters: { store: false, prompt_cache_key: "0198-thread" },
    sessionKey: "0198-thread",
  });
  expect(parts?.blocks).toHaveLength(5);
});

test("messages of the developer that lead the input are system text, later ones history (measured with Codex)", () => {
  const message = (role: string, text: string) => ({
    type: "message",
    role,
    content: [{ type: "input_text", text }],
  });
  const lead = [message("developer", "You are one."), message("developer", "rules")];
  const parts = partsOfResponses({ input: [...lead, message("user", "hi"), message("developer", "late")] });
  expect(parts?.system).toHaveLength(3);
  expect(parts?.blocks).toHaveLength(2);
});

test("an input may be one text", () => {
  const of = (input: unknown) => partsOfResponses({ input })?.blocks;
  expect(of("hi")).toHaveLength(1);
  expect(of([])).toEqual([]);
});

test("without an input it is no request of this protocol, and a strange key names no session", () => {
  for (const body of [null, [], {}, { input: 7 }, { messages: [] }])
    expect(partsOfResponses(body)).toBeNull();
  expect(partsOfResponses({ input: [], prompt_cache_key: "two words" })?.sessionKey).toBeNull();
});
