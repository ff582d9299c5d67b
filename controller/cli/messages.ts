/**
 * The user's messages: from a terminal, with a line editor, or line by line from a pipe. Either way the text goes on as
 * it was given (law 1): nothing is trimmed, decoded leniently or split at anything but a line feed.
 */
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { HoldfastError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

export interface Messages extends AsyncIterable<string> {
  /** Says that the next message may come. */
  prompt(): void;
  /** Ends the messages; those that came already are not given any more. */
  close(): void;
}

/** Terminals that know it send a paste between marks; others ignore the request. */
const PASTE_MARKS = { on: "\u001b[?2004h", off: "\u001b[?2004l" } as const;
/** Separators at which Node's line editor ends a line, and which are text for us. */
const LINE_SEPARATORS: readonly string[] = ["\u2028", "\u2029"];

/** A paste of several lines is one message, sent with the next Enter. `onInterrupt`: Ctrl-C. */
export function terminalMessages(options: {
  input: Readable;
  output: Writable;
  onInterrupt: () => void;
}): Messages {
  const { input, output, onInterrupt } = options;
  const lines = createInterface({ input, output, terminal: true, crlfDelay: Number.POSITIVE_INFINITY });
  const waiting: string[] = [];
  let wake: (() => void) | null = null;
  let isClosed = false;
  let isPasting = false;
  let key = "";
  /** Lines of the message that is not sent yet. */
  let held = "";

  // Before the editor's own listener: what it makes of a key depends on whether the key was pasted.
  input.prependListener("keypress", (_, pressed: { name?: string; sequence?: string }) => {
    if (pressed.name === "paste-start") isPasting = true;
    if (pressed.name === "paste-end") isPasting = false;
    key = pressed.sequence ?? "";
  });
  lines.on("line", (line) => {
    const separator = LINE_SEPARATORS.includes(key) ? key : isPasting ? "\n" : null;
    if (separator !== null) {
      held += line + separator;
      return;
    }
    waiting.push(held + line);
    held = "";
    wake?.();
  });
  lines.on("SIGINT", () => {
    if (!isPasting) onInterrupt();
  });
  lines.once("close", () => {
    isClosed = true;
    output.write(PASTE_MARKS.off);
    wake?.();
  });
  lines.setPrompt("> ");
  output.write(PASTE_MARKS.on);

  return {
    prompt() {
      if (!isClosed) lines.prompt();
    },
    close() {
      waiting.length = 0;
      lines.close();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = waiting.shift();
        if (message !== undefined) yield message;
        else if (isClosed) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

/** Every line is a message. Throws REQUEST_INVALID for what is not UTF-8, MESSAGE_TOO_LARGE for a line beyond the limit. */
export function pipedMessages(input: Readable): Messages {
  let isClosed = false;
  return {
    prompt: () => undefined,
    close() {
      isClosed = true;
      input.destroy();
    },
    async *[Symbol.asyncIterator]() {
      try {
        for await (const line of linesOf(input)) {
          if (isClosed) return;
          yield line;
        }
      } catch (error) {
        // Reading ends with an error when the input was closed under it, which is what was asked for.
        if (!isClosed) throw error;
      }
    },
  };
}

async function* linesOf(input: AsyncIterable<Buffer>): AsyncIterable<string> {
  let rest: Buffer[] = [];
  let restBytes = 0;
  for await (const chunk of input) {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      yield decode([...rest, chunk.subarray(from, end)]);
      rest = [];
      restBytes = 0;
      from = end + 1;
    }
    rest.push(chunk.subarray(from));
    restBytes += chunk.length - from;
    if (restBytes > LIMITS.userTextBytes + 1)
      throw new HoldfastError("MESSAGE_TOO_LARGE", `a line has more than ${LIMITS.userTextBytes} bytes`);
  }
  if (restBytes > 0) yield decode(rest);
}

/** A carriage return at the end belongs to the line's end. */
function decode(pieces: readonly Buffer[]): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces));
    return text.endsWith("\r") ? text.slice(0, -1) : text;
  } catch (cause) {
    throw new HoldfastError("REQUEST_INVALID", "a line of the input is not UTF-8", { cause });
  }
}
