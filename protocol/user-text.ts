/**
 * Which user texts can't reach the model unchanged (law 1). Pure; asked on the host before a turn is durable, and again
 * by the bridge. A text that passes here is never rewritten. What a CLI expands by names that only its own process knows
 * (custom commands, templates) is its driver's to refuse.
 */
import { HoldfastError } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { CliName } from "./locator.ts";

/**
 * Texts that a CLI would take for itself. Claude Code, measured on 2.1.220 and 2.1.332: a word of these characters behind
 * a slash that is the very first character. A known one runs, or is put in place of the text (`/init`); an unknown one is
 * swallowed by 2.1.220 ("Unknown command", no model call) and passed on by 2.1.332. One rule for both, so that a text
 * means the same on either. `/etc/hosts`, `/a.b`, `/`, and a blank before the slash pass unchanged on both.
 *
 * None for the others: OpenCode and Kilo take prompts over an endpoint that knows no commands, Codex takes a turn's text
 * literally, Pi is started without what it could expand.
 */
const COMMAND: Readonly<Record<CliName, RegExp | null>> = {
  opencode: null,
  kilo: null,
  claude: /^\/[A-Za-z0-9:_-]+(?=\s|$)/,
  codex: null,
  pi: null,
};

/**
 * Why this text can't be a turn of this CLI, or null: MESSAGE_EMPTY, MESSAGE_TOO_LARGE, REQUEST_INVALID (half a surrogate
 * pair has no UTF-8 form), MESSAGE_IS_COMMAND. The message never carries the text.
 */
export function textProblem(cli: CliName, text: string): HoldfastError | null {
  if (text === "") return new HoldfastError("MESSAGE_EMPTY");
  const limit = LIMITS.userTextBytes;
  if (text.length > limit || utf8Bytes(text) > limit)
    return new HoldfastError("MESSAGE_TOO_LARGE", `the message has more than ${limit} bytes`);
  if (!text.isWellFormed())
    return new HoldfastError("REQUEST_INVALID", "the message is not well-formed Unicode");
  if (COMMAND[cli]?.test(text) === true) return new HoldfastError("MESSAGE_IS_COMMAND");
  return null;
}

function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    // Each half of a surrogate pair stands for two of its four bytes.
    const isHalf = unit >= 0xd800 && unit < 0xe000;
    bytes += unit < 0x80 ? 1 : unit < 0x800 || isHalf ? 2 : 3;
  }
  return bytes;
}
