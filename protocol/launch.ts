/** How a member's CLI is started: the part of a turn's submission that may force a new process when it changes. */
import * as z from "zod/mini";
import { Digest } from "./ids.ts";
import { CliName } from "./locator.ts";
import { ModelProtocol } from "./model-protocol.ts";
import { MemberPolicy } from "./permission-policy.ts";

export const ModelChoice = z.object({
  /** The provider's model name, e.g. `m1`. */
  name: z.string().check(z.minLength(1), z.maxLength(200)),
  /** What the member's CLI speaks (`model-protocol.ts`); checked when a member is made. */
  protocol: ModelProtocol,
  contextTokens: z.number().check(z.int(), z.positive()),
  outputTokens: z.number().check(z.int(), z.positive()),
});
export type ModelChoice = z.infer<typeof ModelChoice>;

export const Launch = z.object({
  cli: CliName,
  model: ModelChoice,
  permissions: MemberPolicy,
  /** Tools and subagents may work on when their turn has ended; what they do then is unrequested activity. */
  background: z.boolean(),
  /** SHA-256 over image id, CLI version, model, configuration and policy, made by the host. */
  digest: Digest,
});
export type Launch = z.infer<typeof Launch>;
