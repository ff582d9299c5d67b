/** Which part of a Chat Completions request is what. The system text is the messages that lead the history. Pure. */
import {
  bodyOf,
  contentBlocks,
  listOf,
  messageBlocks,
  parametersOf,
  type RequestParts,
  splitSystem,
  unmarked,
} from "./request-parts.ts";

const PARTS = ["model", "messages", "tools"];

export function partsOfChatCompletions(value: unknown): RequestParts | null {
  const body = bodyOf(value);
  if (body === null || !Array.isArray(body.messages)) return null;
  const { system, history } = splitSystem(listOf(body.messages));
  return {
    model: body.model,
    system,
    tools: listOf(body.tools).map(unmarked),
    parameters: parametersOf(body, PARTS),
    blocks: history.flatMap((message, at) => {
      const isAnswer = asksForSummary(history[at - 1]);
      return messageBlocks(message).map(({ value: block, isSummary }) => ({
        value: block,
        isSummary: isSummary || isAnswer,
      }));
    }),
    asksForSummary: false,
    sessionKey: null,
  };
}

/** OpenCode and Kilo put this question, always the same, before the summary of a history that they compacted (measured). */
function asksForSummary(message: unknown): boolean {
  const [first] = contentBlocks(bodyOf(message)?.content);
  return bodyOf(first)?.text === "What did we do so far?";
}
