/**
 * Which part of an OpenAI Responses request is what. The system text is the instructions and the messages that lead the
 * input (Codex 0.171.0 gives no instructions, but messages of the developer: measured); each further item is history,
 * messages by their content blocks. `prompt_cache_key` names the session (Codex: the thread's id). Pure.
 */
import { plainId } from "./provider-id.ts";
import {
  bodyOf,
  listOf,
  messageBlocks,
  parametersOf,
  type RequestParts,
  splitSystem,
} from "./request-parts.ts";

const PARTS = ["model", "instructions", "input", "tools"];

export function partsOfResponses(value: unknown): RequestParts | null {
  const body = bodyOf(value);
  if (body === null) return null;
  const { input } = body;
  if (typeof input !== "string" && !Array.isArray(input)) return null;
  const items = typeof input === "string" ? [{ role: "user", content: input }] : listOf(input);
  const { system, history } = splitSystem(items);
  return {
    model: body.model,
    system: [body.instructions ?? null, ...system],
    tools: listOf(body.tools),
    parameters: parametersOf(body, PARTS),
    blocks: history.flatMap((item) =>
      bodyOf(item)?.content === undefined ? [{ value: item, isSummary: false }] : messageBlocks(item),
    ),
    asksForSummary: false,
    sessionKey: plainId(body.prompt_cache_key),
  };
}
