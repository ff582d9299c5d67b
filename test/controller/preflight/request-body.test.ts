import { expect, test } from "vitest";
import { INSTRUCTIONS } from "../../../controller/preflight/cases.ts";
import { wireCall } from "../../../controller/preflight/request-body.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { anthropicMessages } from "../../support/model/anthropic-messages.ts";
import { chatCompletions } from "../../support/model/chat-completions.ts";
import { responses } from "../../support/model/responses.ts";

const WIRES = { "chat-completions": chatCompletions, responses, messages: anthropicMessages } as const;
const MESSAGES = [
  { role: "user", text: "one" },
  { role: "assistant", text: "two" },
  { role: "user", text: "one" },
] as const;

test.for(ModelProtocol.options)("%s: a loopback model reads the same messages, and streams", (protocol) => {
  const { path, headers, body } = wireCall(protocol, "m7", MESSAGES);
  const wire = WIRES[protocol];
  expect(`/v1${path}`).toBe(wire.path);
  const { model, system, rows, stream, wantsUsage } = wire.parse(JSON.parse(body));
  expect({ model, system, stream, wantsUsage }).toEqual({
    model: "m7",
    system: INSTRUCTIONS,
    stream: true,
    wantsUsage: true,
  });
  expect(rows.map(({ role, texts }) => ({ role, text: texts.join("|") }))).toEqual([...MESSAGES]);
  expect(headers).toMatchObject({ "content-type": "application/json", accept: "text/event-stream" });
});

test("adaptive or high effort is asked for in each protocol's own words", () => {
  const of = (protocol: ModelProtocol) => JSON.parse(wireCall(protocol, "m", MESSAGES).body) as object;
  expect(of("chat-completions")).toMatchObject({ reasoning_effort: "high" });
  expect(of("responses")).toMatchObject({ reasoning: { effort: "high" }, store: false });
  expect(of("messages")).toMatchObject({ thinking: { type: "adaptive" }, output_config: { effort: "high" } });
});

test("Anthropic's version stands in its header, and no other protocol has it", () => {
  const versions = ModelProtocol.options.map(
    (protocol) => wireCall(protocol, "m", MESSAGES).headers["anthropic-version"],
  );
  expect(versions).toEqual([undefined, undefined, "2023-06-01"]);
});
