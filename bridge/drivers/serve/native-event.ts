/**
 * The server's events, read once at the door. Only what decides something is named; everything else is `other`.
 * Unknown fields are ignored, and so are unknown types: the server has many that are noise to us.
 */
import * as z from "zod/mini";

const ErrorInfo = z.object({
  name: z.string(),
  data: z.optional(z.looseObject({ message: z.optional(z.string()) })),
});

const Tokens = z.looseObject({
  input: z.optional(z.number()),
  output: z.optional(z.number()),
  reasoning: z.optional(z.number()),
  cache: z.optional(z.object({ read: z.optional(z.number()), write: z.optional(z.number()) })),
});

export const NativeMessage = z.object({
  id: z.string(),
  role: z.enum(["user", "assistant"]),
  parentID: z.optional(z.string()),
  finish: z.optional(z.string()),
  /** True on the message of a compaction; on a user's message an object with diffs. */
  summary: z.optional(z.unknown()),
  error: z.optional(ErrorInfo),
  time: z.object({ created: z.number(), completed: z.optional(z.number()) }),
  tokens: z.optional(Tokens),
});
export type NativeMessage = z.infer<typeof NativeMessage>;

const Part = z.object({
  id: z.string(),
  messageID: z.string(),
  type: z.string(),
  text: z.optional(z.string()),
  synthetic: z.optional(z.boolean()),
  metadata: z.optional(z.record(z.string(), z.unknown())),
  time: z.optional(z.looseObject({ end: z.optional(z.number()) })),
  tool: z.optional(z.string()),
  callID: z.optional(z.string()),
  state: z.optional(z.looseObject({ status: z.string(), title: z.optional(z.string()) })),
});
export type NativePart = z.infer<typeof Part>;

const Status = z.object({
  type: z.string(),
  attempt: z.optional(z.number()),
  message: z.optional(z.string()),
  next: z.optional(z.number()),
});
export type NativeStatusInfo = z.infer<typeof Status>;

const event = <K extends string, S extends z.core.$ZodLooseShape>(type: K, shape: S) =>
  z.object({ type: z.literal(type), properties: z.object(shape) });

const session = { sessionID: z.string() };

/** A question, as the event and the pending list give it. */
export const NativeQuestion = z.object({
  ...session,
  id: z.string(),
  questions: z._default(
    z.array(
      z.object({
        question: z._default(z.string(), ""),
        header: z._default(z.string(), ""),
        options: z._default(
          z.array(z.object({ label: z.string(), description: z._default(z.string(), "") })),
          [],
        ),
        multiple: z.nullish(z.boolean()),
        custom: z.nullish(z.boolean()),
      }),
    ),
    [],
  ),
  tool: z.nullish(z.object({ callID: z.optional(z.string()) })),
});
export type NativeQuestion = z.infer<typeof NativeQuestion>;

const Known = z.discriminatedUnion("type", [
  event("server.connected", {}),
  event("server.heartbeat", {}),
  event("server.instance.disposed", {}),
  event("tui.toast.show", { message: z.string() }),
  event("session.created", {
    info: z.object({ id: z.string(), parentID: z.nullish(z.string()), title: z.optional(z.string()) }),
  }),
  event("session.status", { ...session, status: Status }),
  event("session.idle", session),
  event("session.error", { sessionID: z.optional(z.string()), error: z.optional(ErrorInfo) }),
  event("message.updated", { ...session, info: NativeMessage }),
  event("message.part.updated", { ...session, part: Part }),
  event("message.part.delta", {
    ...session,
    messageID: z.string(),
    partID: z.string(),
    field: z.string(),
    delta: z.string(),
  }),
  event("permission.asked", {
    ...session,
    id: z.string(),
    permission: z.string(),
    patterns: z._default(z.array(z.string()), []),
    /** The tool call that waits for the answer; not every request has one. */
    tool: z.nullish(z.object({ callID: z.optional(z.string()) })),
  }),
  event("permission.replied", { ...session, requestID: z.string(), reply: z.string() }),
  event("question.asked", NativeQuestion.shape),
  event("question.replied", { ...session, requestID: z.string() }),
  event("question.rejected", { ...session, requestID: z.string() }),
  event("message.removed", { ...session, messageID: z.string() }),
  event("message.part.removed", { ...session, messageID: z.string(), partID: z.string() }),
  // Kilo alone: the bracket of a turn, and a provider that is out of reach.
  event("session.turn.open", session),
  event("session.turn.close", { ...session, reason: z.string() }),
  event("session.network.asked", { ...session, id: z.string(), message: z.optional(z.string()) }),
  event("session.network.replied", {
    ...session,
    requestID: z.optional(z.string()),
    id: z.optional(z.string()),
  }),
  event("session.network.rejected", {
    ...session,
    requestID: z.optional(z.string()),
    id: z.optional(z.string()),
  }),
]);
export type NativeEvent = z.infer<typeof Known>;

const KNOWN_TYPES: ReadonlySet<string> = new Set(
  Known.def.options.map((option) => option.shape.type.def.values[0] ?? ""),
);

export type ReadEvent =
  | { kind: "known"; event: NativeEvent }
  | { kind: "other"; type: string }
  /** Not JSON, or a known type with a shape that it never had: the stream can't be trusted any more. */
  | { kind: "broken"; why: string };

export function readNativeEvent(data: string): ReadEvent {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return { kind: "broken", why: "an event is not JSON" };
  }
  const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
  if (typeof type !== "string") return { kind: "broken", why: "an event has no type" };
  if (!KNOWN_TYPES.has(type)) return { kind: "other", type };
  const parsed = Known.safeParse(value);
  if (parsed.success) return { kind: "known", event: parsed.data };
  return {
    kind: "broken",
    why: `an event ${type} has an unexpected shape at ${parsed.error.issues[0]?.path.join(".") ?? ""}`,
  };
}
