/**
 * The root's assistant text of one turn, part by part: what streams is provisional until its `assistant` message came, and
 * is withdrawn when its attempt is given up. Pure.
 *
 *   message_start A ─▶ deltas of A ─▶ assistant A            the text stands
 *   message_start A ─▶ deltas of A ─▶ api_retry              withdrawn
 *   message_start A ─▶ deltas of A ─▶ message_start B        withdrawn
 *   message_start A ─▶ deltas of A ─▶ assistant B            withdrawn: asked again in silence, without streaming
 *
 * A part is a content block of a message. The `assistant` message of a block comes while the block is open, and names no
 * index; without streaming the blocks are counted.
 */
import { LIMITS } from "../../../protocol/limits.ts";
import type { NativeBlock, NativeStreamEvent } from "./native-message.ts";

export type TextChange =
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "withdrawn"; part: string };

/** Blocks of one message that are streamed and not finished. Beyond: they come when they are finished. */
const BLOCKS = 1000;

export interface TextParts {
  stream(event: NativeStreamEvent): TextChange[];
  /** A finished block, or several, of a message of the model. */
  finished(message: string, blocks: readonly NativeBlock[]): TextChange[];
  /** The attempt under way is given up. */
  withdrawUnfinished(): TextChange[];
}

export function createTextParts(): TextParts {
  /** What has streamed of the message under way, by part; a part leaves it when it is finished. */
  const unfinished = new Map<string, string>();
  /** Blocks of the last message that came without streaming. */
  let counted = { message: "", blocks: 0 };
  let streaming: string | null = null;
  let open: number | null = null;

  const partOf = (message: string, index: number) => `${message}/${index}`;

  function withdrawUnfinished(): TextChange[] {
    const changes = [...unfinished.keys()].map((part) => ({ kind: "withdrawn" as const, part }));
    unfinished.clear();
    streaming = null;
    open = null;
    return changes;
  }

  function append(text: string): TextChange[] {
    if (streaming === null || open === null || text === "") return [];
    const part = partOf(streaming, open);
    const before = unfinished.get(part) ?? "";
    // The turn's output ends there too.
    if (before.length >= LIMITS.outputChars || unfinished.size >= BLOCKS) return [];
    unfinished.set(part, before + text);
    return [{ kind: "text", part, from: before.length, text }];
  }

  function finishBlock(message: string, { type, text = "" }: NativeBlock): TextChange[] {
    const isStreamed = streaming === message && open !== null;
    if (!isStreamed) counted = { message, blocks: counted.message === message ? counted.blocks + 1 : 1 };
    if (type !== "text") return [];
    const part = partOf(message, isStreamed && open !== null ? open : counted.blocks - 1);
    const streamed = unfinished.get(part) ?? "";
    unfinished.delete(part);
    return streamed === text ? [] : [{ kind: "text", part, from: 0, text }];
  }

  return {
    stream(event) {
      switch (event.type) {
        case "message_start": {
          const changes = withdrawUnfinished();
          streaming = event.message?.id ?? null;
          return changes;
        }
        case "content_block_start":
          open = event.index ?? null;
          return event.content_block?.type === "text" ? append(event.content_block.text ?? "") : [];
        case "content_block_delta":
          return event.delta?.type === "text_delta" ? append(event.delta.text ?? "") : [];
        case "content_block_stop":
          open = null;
          return [];
        default:
          // Usage, pings, the message's end: nothing of its text.
          return [];
      }
    },
    finished(message, blocks) {
      const changes = streaming === message || streaming === null ? [] : withdrawUnfinished();
      return [...changes, ...blocks.flatMap((block) => finishBlock(message, block))];
    },
    withdrawUnfinished,
  };
}
