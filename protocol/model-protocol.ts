/**
 * Which of the three model protocols each CLI speaks. Pure data: the host checks a new member with it, the command line
 * takes its default from it, a driver configures its CLI for exactly this one.
 */
import * as z from "zod/mini";
import { HoldfastError } from "./errors.ts";
import type { CliName } from "./locator.ts";

/** `chat-completions` and `responses` are OpenAI's, `messages` is Anthropic's. */
export const ModelProtocol = z.enum(["chat-completions", "responses", "messages"]);
export type ModelProtocol = z.infer<typeof ModelProtocol>;

/**
 * One protocol a CLI: the one that it was measured with. Claude Code and Codex know no other; OpenCode, Kilo and Pi are
 * configured for this one by their drivers.
 */
export const PROTOCOL_OF_CLI: Readonly<Record<CliName, ModelProtocol>> = {
  opencode: "chat-completions",
  kilo: "chat-completions",
  claude: "messages",
  codex: "responses",
  pi: "chat-completions",
};

/** Why a model of this protocol can't serve this CLI (MODEL_PROTOCOL_UNFIT), or null when it can. */
export function protocolProblem(cli: CliName, protocol: ModelProtocol): HoldfastError | null {
  const wanted = PROTOCOL_OF_CLI[cli];
  if (protocol === wanted) return null;
  const details = { cli, protocol, wanted };
  return new HoldfastError("MODEL_PROTOCOL_UNFIT", `${cli} speaks ${wanted}, the model ${protocol}`, {
    details,
  });
}
