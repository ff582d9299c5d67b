// What a script may say: one step is one reply of the model. The schema is the source of the types; a script
// comes from a test, from the control endpoint or from the user's text, and is parsed here once.
// How a step is played is in player.ts; which one is played, in scripts.ts.
import { z } from "zod";
import { STEP_DELAY_MAX_MS, STEPS_MAX } from "./limits.ts";

const delayMs = z.number().int().min(0).max(STEP_DELAY_MAX_MS);
const headers = z.record(z.string(), z.string());
const statusCode = z.number().int().min(200).max(599);
const count = z.number().int().min(0);

/** A string is cut into words with the space after them; an array gives the chunks exactly. */
const text = z.union([z.string(), z.array(z.string())]);

const usage = z.union([
  z.literal("zero"),
  z.literal("absent"),
  z.strictObject({
    inputTokens: count,
    outputTokens: count,
    cachedInputTokens: count.optional(),
    cacheWriteTokens: count.optional(),
    reasoningTokens: count.optional(),
  }),
]);

const times = z.number().int().min(1);

const cut = { kind: z.literal("cut"), text };
const endEarly = { kind: z.literal("endEarly"), text };
const destroy = { kind: z.literal("destroy") };
const errorChunk = {
  kind: z.literal("errorChunk"),
  text: text.optional(),
  message: z.string().default("scripted error"),
  /** What the protocol calls the error. */
  reason: z.enum(["server", "overloaded", "rateLimit", "contextOverflow"]).default("server"),
};

const failFirst = z.union([
  z.strictObject({
    times,
    status: statusCode.default(500),
    headers: headers.optional(),
    body: z.unknown().optional(),
  }),
  z.strictObject({
    times,
    /** Breaks like the step of that kind. */
    step: z.discriminatedUnion("kind", [
      z.strictObject(cut),
      z.strictObject(endEarly),
      z.strictObject(destroy),
      z.strictObject(errorChunk),
    ]),
  }),
]);

const common = {
  /** Silence before the first byte, headers included. */
  beforeFirstByteMs: delayMs.optional(),
  /** Pause before every chunk but the first. */
  betweenChunksMs: delayMs.optional(),
  /** So many requests that reach this step get the status, or break, first. */
  failFirst: failFirst.optional(),
};

const toolCall = z.strictObject({
  name: z.string().min(1),
  /** An object goes out as JSON; a string goes out as it is, broken JSON included. */
  arguments: z.union([z.record(z.string(), z.unknown()), z.string()]),
  id: z.string().min(1).optional(),
});

const step = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("reply"),
    text: text.optional(),
    toolCalls: z.array(toolCall).optional(),
    finish: z.enum(["stop", "toolCalls", "length"]).optional(),
    usage: usage.optional(),
    ...common,
  }),
  /** Headers, then silence until the client goes. */
  z.strictObject({ kind: z.literal("hang"), ...common }),
  /** Some text, then silence until the client goes. */
  z.strictObject({ kind: z.literal("stall"), text, ...common }),
  /** The text again and again until the client goes. */
  z.strictObject({ kind: z.literal("neverEnd"), text, everyMs: delayMs.min(1).default(50), ...common }),
  /** Some text, then a reset of the connection. */
  z.strictObject({ ...cut, ...common }),
  /** Some text, then a clean end without a finish reason. */
  z.strictObject({ ...endEarly, ...common }),
  /** Some text, then an error inside the stream and a clean end. */
  z.strictObject({ ...errorChunk, ...common }),
  /** The connection closed before any header. */
  z.strictObject({ ...destroy, ...common }),
  z.strictObject({
    kind: z.literal("status"),
    status: statusCode,
    headers: headers.optional(),
    /** A string goes out as it is, anything else as JSON; undefined: the protocol's own error body. */
    body: z.unknown().optional(),
    ...common,
  }),
  /** The provider's own refusal of a history that is too long. */
  z.strictObject({ kind: z.literal("contextOverflow"), message: z.string().optional(), ...common }),
]);

const stepOrText = z.union([
  step,
  z.string().transform((value): ReplyStep => ({ kind: "reply", text: value })),
]);
const steps = z.array(stepOrText).min(1).max(STEPS_MAX);

export type Step = z.output<typeof step>;
export type ReplyStep = Extract<Step, { kind: "reply" }>;
/** What a script's author writes; a plain string is a reply with that text. */
export type StepInput = z.input<typeof step> | string;
export type UsageInput = z.output<typeof usage>;

/** Throws a TypeError that names the faulty step. */
export function parseSteps(input: unknown): Step[] {
  const parsed = steps.safeParse(input);
  if (!parsed.success) throw new TypeError(`not a script: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

export function chunksOf(value: string | readonly string[] | undefined): readonly string[] {
  if (value === undefined) return [];
  if (typeof value !== "string") return value;
  return value.match(/\S+\s*|\s+/gu) ?? [];
}
