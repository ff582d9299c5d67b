/**
 * Which part of an Anthropic Messages request is what. Messages of the role `system` are part of the history. Claude Code
 * asks for a summary with its tools and under its main session: what the last text says is all that tells it. Pure.
 */
import {
  bodyOf,
  contentBlocks,
  listOf,
  messageBlocks,
  parametersOf,
  type RequestParts,
  unmarked,
} from "./request-parts.ts";

const PARTS = ["model", "messages", "tools", "system"];

export function partsOfMessages(value: unknown): RequestParts | null {
  const body = bodyOf(value);
  if (body === null || !Array.isArray(body.messages)) return null;
  return {
    model: body.model,
    system: contentBlocks(body.system),
    tools: listOf(body.tools).map(unmarked),
    parameters: parametersOf(body, PARTS),
    blocks: listOf(body.messages).flatMap(messageBlocks),
    asksForSummary: asksForSummary(listOf(body.messages).at(-1)),
    sessionKey: null,
  };
}

/** With which text 2.1.332 asks (measured); 2.1.220 compacts on demand alone. */
const SUMMARY_REQUEST = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.";

function asksForSummary(last: unknown): boolean {
  const text = bodyOf(contentBlocks(bodyOf(last)?.content).at(-1))?.text;
  return typeof text === "string" && text.startsWith(SUMMARY_REQUEST);
}
