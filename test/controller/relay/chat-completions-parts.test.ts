import { expect, test } from "vitest";
import { partsOfChatCompletions } from "../../../controller/relay/chat-completions-parts.ts";
import { chatBody, tool } from "./calls.ts";

test("system text, tools, parameters and history are told apart", () => {
  const parts = partsOfChatCompletions(chatBody(["hi", "yes"], { max_tokens: 7, stream_options: {} }));
  expect(parts).toMatchObject({
    model: "m1",
    system: [[{ type: "text", text: "You are one." }]],
    tools: [tool("bash")],
    parameters: { max_tokens: 7 },
    sessionKey: null,
  });
  expect(parts?.blocks).toHaveLength(2);
});

test("messages of the system behind the first other one are history", () => {
  const late = { role: "system", content: "late" };
  const messages = [{ role: "developer", content: "a" }, late, { role: "user", content: "u" }, late];
  const parts = partsOfChatCompletions({ messages });
  expect(parts?.system).toHaveLength(2);
  expect(parts?.blocks).toHaveLength(2);
  expect(partsOfChatCompletions({ messages: [late] })).toMatchObject({
    blocks: [],
    tools: [],
    model: undefined,
  });
});

test("the answer to the question that precedes a summary is the summary, and nothing else is", () => {
  const of = (messages: object[]) =>
    partsOfChatCompletions({ messages })?.blocks.map(({ isSummary }) => isSummary);
  const [question, answer] = ["What did we do so far?", { role: "assistant", content: "We did this." }];
  const next = { role: "user", content: "go on" };
  expect(of([{ role: "user", content: question }, answer, next])).toEqual([false, true, false]);
  const parts = [question, "<environment_details>"].map((text) => ({ type: "text", text }));
  expect(of([{ role: "user", content: parts }, answer, next])).toEqual([false, false, true, false]);
  expect(of([{ role: "user", content: `${question} Say it.` }, answer])).toEqual([false, false]);
});

test("without messages it is no request of this protocol", () => {
  for (const body of [null, [], "a", {}, { messages: "hi" }, { input: [] }])
    expect(partsOfChatCompletions(body)).toBeNull();
});
