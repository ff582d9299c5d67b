/** Which part of a Chat Completions request is what. The system text is the messages that lead the history. Pure. */
import {
  bodyOf,
  contentBlocks,
  listOf,
  messageBlocks,
  parametersOf,
  type RequestParts,
  unmarked,
} from "./request-parts.ts";

const PARTS = ["model", "messages", "tools"];

export function partsOfChatCompletions(value: unknown): RequestParts | null {
  const body = bodyOf(value);
  if (body === null || !Array.isArray(body.messages)) return null;
  const messages = listOf(body.messages);
  const first = messages.findIndex((message) => !isSystem(message));
  const history = first === -1 ? [] : messages.slice(first);
  return {
    model: body.model,
    system: messages
      .slice(0, messages.length - history.length)
      .map((message) => contentBlocks(bodyOf(message)?.content)),
    tools: listOf(body.tools).map(unmarked),
    parameters: parametersOf(body, PARTS),
    blocks: history.flatMap((message, at) => {
      const isAnswer = asksForSummary(history[at - 1]);
      return messageBlocks(message).map(({ value: block, isSummary }) => ({
        value: block,
        isSummary: isSummary || isAnswer,
      }));
    }),
    sessionKey: null,
  };
}

function isSystem(message: unknown): boolean {
  const role = bodyOf(message)?.role;
  return role === "system" || role === "developer";
}

/** OpenCode and Kilo put this question, always the same, before the summary of a history that they compacted (measured). */
function asksForSummary(message: unknown): boolean {
  const [first] = contentBlocks(bodyOf(message)?.content);
  return bodyOf(first)?.text === "What did we do so far?";
}
