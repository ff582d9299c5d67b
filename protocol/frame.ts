/**
 * Frames: everything that travels on a link, one schema a kind.
 *
 *   bridge                              controller
 *     │  hello (pin, token, cursors) ─────▶ │   checks token and fence
 *     │ ◀────────────── welcome | refuse    │   names the cursor it has
 *     │  event, event, … ─────────────────▶ │   from that cursor on, without gaps
 *     │ ◀───────────────────────────── ack  │   applied and durable at the host
 *     │  delta, snapshot ─────────────────▶ │
 *     │ ◀──────────────────────── consumed  │   opens the window for further deltas
 *     │ ◀──────── request   response ─────▶ │   the controller asks
 *     │ ◀──────── ping / pong ────────────▶ │   both sides
 */
import * as z from "zod/mini";
import { WireError } from "./errors.ts";
import { NumberedEvent } from "./events.ts";
import { Count, OurId } from "./ids.ts";
import { LIMITS } from "./limits.ts";

const Token = z.string().check(z.minLength(16), z.maxLength(256));
const Part = z.string().check(z.minLength(1), z.maxLength(256));
/** Nil, booleans, numbers, texts, and lists and objects of them. Its meaning is checked by the method's own schema. */
const Plain = z.unknown().check(z.refine((value) => isPlain(value, LIMITS.nestedLevels)));

/** A place in a bridge's journal. The journal id is random and made once; the epoch counts the bridge's lives. */
export const Cursor = z.object({ journalId: OurId, epoch: Count, seq: Count });
export type Cursor = z.infer<typeof Cursor>;

export const FRAMES = {
  /** First frame of the bridge. */
  hello: z.object({
    kind: z.literal("hello"),
    pin: z.string().check(z.maxLength(512)),
    sandboxId: OurId,
    token: Token,
    head: Cursor,
    /** Events up to this one were acknowledged, and are no longer kept. */
    acked: Count,
    /** The highest fence that was seen; a lower one is refused. */
    fence: Count,
  }),
  /** First frame of the controller: it takes the link, with its fence and the last sequence number that it applied. */
  welcome: z.object({ kind: z.literal("welcome"), fence: Count, applied: Count }),
  /** The controller does not take the link; the bridge tries again later. */
  refuse: z.object({ kind: z.literal("refuse"), error: WireError }),
  event: z.object({ kind: z.literal("event"), entry: NumberedEvent }),
  /** All control events up to this one are durable at the host. */
  ack: z.object({ kind: z.literal("ack"), seq: Count }),
  /** Text of a part from this offset (UTF-16 units) on. */
  delta: z.object({
    kind: z.literal("delta"),
    turn: OurId,
    part: Part,
    offset: Count,
    text: z.string().check(z.maxLength(LIMITS.outputChars)),
  }),
  /** The whole part so far; replaces what was there. */
  snapshot: z.object({
    kind: z.literal("snapshot"),
    turn: OurId,
    part: Part,
    text: z.string().check(z.maxLength(LIMITS.outputChars)),
  }),
  /** Delta bytes (as counted by the sender's `deltaCost`) that the controller has taken so far on this link. */
  consumed: z.object({ kind: z.literal("consumed"), bytes: Count }),
  request: z.object({
    kind: z.literal("request"),
    id: Count,
    method: z.string().check(z.maxLength(64)),
    params: Plain,
  }),
  response: z.object({
    kind: z.literal("response"),
    id: Count,
    result: Plain,
    error: z.nullable(WireError),
  }),
  ping: z.object({ kind: z.literal("ping"), n: Count }),
  pong: z.object({ kind: z.literal("pong"), n: Count }),
} as const;

export const Frame = z.discriminatedUnion("kind", [
  FRAMES.hello,
  FRAMES.welcome,
  FRAMES.refuse,
  FRAMES.event,
  FRAMES.ack,
  FRAMES.delta,
  FRAMES.snapshot,
  FRAMES.consumed,
  FRAMES.request,
  FRAMES.response,
  FRAMES.ping,
  FRAMES.pong,
]);
export type Frame = z.infer<typeof Frame>;
export type FrameKind = Frame["kind"];
export type FrameOf<K extends FrameKind> = Extract<Frame, { kind: K }>;

/** What a delta or a snapshot costs of the window. Both sides count alike, from the text alone. */
export function deltaCost(frame: FrameOf<"delta"> | FrameOf<"snapshot">): number {
  return frame.text.length + 64;
}

function isPlain(value: unknown, levels: number): boolean {
  if (value === null || ["string", "boolean", "number"].includes(typeof value)) return true;
  if (typeof value !== "object" || levels === 0) return false;
  if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.values(value).every((part) => isPlain(part, levels - 1));
}
