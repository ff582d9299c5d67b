import { expect, test } from "vitest";
import { partsOfMessages } from "../../../controller/relay/messages-parts.ts";

const MARK = { cache_control: { type: "ephemeral", ttl: "1h" } };

test("system text, tools, parameters and history are told apart, marks left out", () => {
  const body = {
    model: "claude-x",
    max_tokens: 9,
    metadata: { user_id: "u" },
    stream: true,
    system: [
      { type: "text", text: "a" },
      { type: "text", text: "b", ...MARK },
    ],
    tools: [{ name: "Bash" }, { name: "Edit", ...MARK }],
    messages: [
      { role: "user", content: [{ type: "text", text: "hi", ...MARK }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "yes" },
          { type: "tool_use", id: "t", name: "Bash", input: {} },
        ],
      },
    ],
  };
  const parts = partsOfMessages(body);
  expect(parts).toMatchObject({ model: "claude-x", parameters: { max_tokens: 9 }, sessionKey: null });
  expect(parts?.blocks).toHaveLength(3);
  expect(JSON.stringify(parts)).not.toContain("ephemeral");
});

test("the first message keeps its block when a mark has made a list of its text (measured with Claude Code)", () => {
  const of = (content: unknown) => partsOfMessages({ messages: [{ role: "system", content }] })?.blocks;
  expect(of([{ type: "text", text: "reminder", ...MARK }])).toEqual(of("reminder"));
});

test("a system text may be a string", () => {
  const of = (system: unknown) => partsOfMessages({ messages: [], system })?.system;
  expect(of("a")).toEqual(of([{ type: "text", text: "a", ...MARK }]));
  expect(of(undefined)).toEqual([]);
});

test("a request for a summary is told by its last text alone (measured with Claude Code)", () => {
  const ask = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read";
  const of = (...messages: unknown[]) => partsOfMessages({ messages })?.asksForSummary;
  const user = (content: unknown) => ({ role: "user", content });
  expect(of(user("hi"), user(ask))).toBe(true);
  expect(of(user("hi"), user([{ type: "text", text: ask, ...MARK }]))).toBe(true);
  expect(of(user(ask), user("hi"))).toBe(false);
  expect(of(user(`Say: ${ask}`))).toBe(false);
  expect(of()).toBe(false);
});

test("without messages it is no request of this protocol", () => {
  for (const body of [null, [], {}, { messages: {} }]) expect(partsOfMessages(body)).toBeNull();
});
