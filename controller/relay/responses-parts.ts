/**
 * Which part of an OpenAI Responses request is what. Each item of the input is history, messages by their content blocks;
 * `prompt_cache_key` names the session (Codex: the thread's id). Pure.
 */
import { plainId } from "./provider-id.ts";
import { bodyOf, listOf, messageBlocks, parametersOf, type RequestParts } from "./request-parts.ts";

const PARTS = ["model", "instructions", "input", "tools"];

export function partsOfResponses(value: unknown): RequestParts | null {
  const body = bodyOf(value);
  if (body === null) return null;
  const { input } = body;
  if (typeof input !== "string" && !Array.isArray(input)) return null;
  return {
    model: body.model,
    system: body.instructions ?? null,
    tools: listOf(body.tools),
    parameters: parametersOf(body, PARTS),
    blocks:
      typeof input === "string"
        ? messageBlocks({ role: "user", content: input })
        : listOf(input).flatMap((item) =>
            bodyOf(item)?.content === undefined ? [{ value: item, isSummary: false }] : messageBlocks(item),
          ),
    sessionKey: plainId(body.prompt_cache_key),
  };
}
