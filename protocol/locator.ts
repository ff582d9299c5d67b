/** The locator: the plain, durable value with which a native conversation is found again. */
import * as z from "zod/mini";
import { Count, Digest, NativeId, OurId } from "./ids.ts";

/** The CLIs that a member can be of. Which of them have a driver is the bridge's manifest. */
export const CliName = z.enum(["opencode", "kilo", "claude", "codex", "pi"]);
export type CliName = z.infer<typeof CliName>;

/**
 * The last settled native turn, as the CLI's history names it. The *assistant's* message where there is one: on
 * context overflow OpenCode posts the user's message anew under another id, so a user's id proves nothing.
 */
export const TailReference = z.object({ role: z.enum(["assistant", "user"]), id: NativeId });
export type TailReference = z.infer<typeof TailReference>;

/** The container that holds the conversation. Binding is by id, never by name. */
export const ContainerIdentity = z.object({
  sandboxId: OurId,
  generation: Count,
  containerId: z.string().check(z.minLength(1), z.maxLength(128)),
  imageId: z.string().check(z.minLength(1), z.maxLength(128)),
  helperSha256: Digest,
});
export type ContainerIdentity = z.infer<typeof ContainerIdentity>;

export const Locator = z.object({
  format: z.literal(1),
  cli: CliName,
  cliVersion: z.string().check(z.maxLength(64)),
  nativeId: NativeId,
  /** Canonical working directory of the session, inside the sandbox. */
  directory: z.string().check(z.regex(/^\//), z.maxLength(1024)),
  container: ContainerIdentity,
  /** Settled native turns so far, this one included. */
  settledTurns: Count,
  /** Null when the history of the settled turns holds no message (a turn that failed before any). */
  tail: z.nullable(TailReference),
});
export type Locator = z.infer<typeof Locator>;
