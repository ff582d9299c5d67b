/** The rows of the store as the rest of the controller sees them, and how they are read. */
import * as z from "zod/mini";
import { HoldfastError, WireError } from "../../protocol/errors.ts";
import { FORK_STATES, ForkedSession } from "../../protocol/fork.ts";
import { OurId } from "../../protocol/ids.ts";
import { ModelChoice } from "../../protocol/launch.ts";
import { CliName, ContainerIdentity, Locator } from "../../protocol/locator.ts";
import { MemberPolicy } from "../../protocol/permission-policy.ts";
import { RECORD_STATES } from "../../protocol/record-state.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { parsedJson } from "../parsed-json.ts";

/** Throws STORE_ERROR for a row that is none of that kind. */
export function parseRow<S extends z.ZodMiniType>(schema: S, row: unknown): z.infer<S> {
  const parsed = schema.safeParse(row);
  if (parsed.success) return parsed.data;
  throw new HoldfastError(
    "STORE_ERROR",
    `a record of the store can't be read (${parsed.error.issues[0]?.path.join(".") ?? ""})`,
  );
}

/** What a member was created with. */
export const MemberOptions = z.object({
  model: ModelChoice,
  permissions: MemberPolicy,
  /** Background tools and subagents that outlive their turn are allowed. */
  background: z.boolean(),
  /** Name of the host's route to the model. Default: the first one of the model's protocol. Changes no launch. */
  route: z.optional(OurId),
});
export type MemberOptions = z.infer<typeof MemberOptions>;

export const SandboxKind = z.enum(["docker", "process"]);
export type SandboxKind = z.infer<typeof SandboxKind>;

/** What should be, kept apart from what is. */
export const Wanted = z.enum(["running", "stopped", "removed"]);
export type Wanted = z.infer<typeof Wanted>;

function json<T extends z.ZodMiniType>(schema: T) {
  return z.pipe(z.string(), z.pipe(z.transform(parsedJson), schema));
}

export const SandboxRow = z.object({
  id: z.string(),
  kind: SandboxKind,
  directory: z.string(),
  generation: z.number(),
  container: z.nullable(json(ContainerIdentity)),
  wanted: Wanted,
  unready: z.nullable(z.string()),
  journal_id: z.nullable(z.string()),
  applied: z.number(),
  created_at: z.number(),
});
export type SandboxRow = z.infer<typeof SandboxRow>;

export const MemberRow = z.object({
  id: z.string(),
  sandbox: z.string(),
  cli: CliName,
  options: json(MemberOptions),
  submissions: z.number(),
  settled_turns: z.number(),
  locator: z.nullable(json(Locator)),
  pending_locator: z.nullable(json(Locator)),
  must_prove: z.nullable(z.string()),
  created_at: z.number(),
});
export type MemberRow = z.infer<typeof MemberRow>;

export const TurnRow = z.object({
  id: z.string(),
  member: z.string(),
  number: z.number(),
  state: z.enum(RECORD_STATES),
  text_sha256: z.string(),
  text_bytes: z.number(),
  settlement: z.nullable(json(Settlement)),
  submitted_at: z.number(),
  ended_at: z.nullable(z.number()),
  /** SHA-256 of what its CLI was launched with. */
  launch: z.nullable(z.string()),
  /** How long it waited for its start. */
  queued_ms: z.nullable(z.number()),
});
export type TurnRow = z.infer<typeof TurnRow>;

/** A member that was made as a fork, and how far it has come. */
export const ForkRow = z.object({
  member: z.string(),
  key: z.string(),
  parent: z.string(),
  state: z.enum(FORK_STATES),
  /** The parent's locator where the fork begins. */
  source: json(Locator),
  /** The parent's native state is in the member's slot, and its CLI makes the session with the first turn. */
  awaits_turn: z.pipe(
    z.number(),
    z.transform((given: number) => given === 1),
  ),
  session: z.nullable(json(ForkedSession)),
  error: z.nullable(json(WireError)),
  created_at: z.number(),
  updated_at: z.number(),
});
export type ForkRow = z.infer<typeof ForkRow>;

/** What somebody who has looked at an unknown turn wrote down, and when. */
export const InspectionRow = z.object({ turn: z.string(), at: z.number(), note: z.string() });
export type InspectionRow = z.infer<typeof InspectionRow>;
