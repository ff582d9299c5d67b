/** Which part of an Anthropic Messages request is what. Messages of the role `system` are part of the history. Pure. */
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
    sessionKey: null,
  };
}
