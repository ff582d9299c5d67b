// Native events as the server writes them, for tests: recorded ones and hand-made ones.
import { readdirSync, readFileSync } from "node:fs";
import { type NativeEvent, readNativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";

const folder = new URL("../../../captures/", import.meta.url);

export type Cli = "opencode" | "kilo";

/** One captured event, as it was on the wire (identifiers and long texts were cut by the recorder). */
export interface Captured {
  line: number;
  data: string;
  raw: { type: string; properties: Record<string, unknown> };
}

export function captureNames(cli: Cli): string[] {
  return readdirSync(new URL(`${cli}/`, folder)).map((name) => name.replace(/^sse-|\.ndjson$/g, ""));
}

export function captured(cli: Cli, name: string): Captured[] {
  return readFileSync(new URL(`${cli}/sse-${name}.ndjson`, folder), "utf8")
    .trim()
    .split("\n")
    .map((text, index) => {
      const { ev } = JSON.parse(text) as { ev: Captured["raw"] };
      return { line: index + 1, data: JSON.stringify(ev), raw: ev };
    });
}

/** The event that these bytes are for us, or null for noise. Throws on what the driver would call broken. */
export function readEvent(data: string): NativeEvent | null {
  const read = readNativeEvent(data);
  if (read.kind === "broken") throw new Error(`${read.why}: ${data}`);
  return read.kind === "known" ? read.event : null;
}

/** Hand-made events go through the reader too, so that a test can't use a shape which the driver would refuse. */
function make(type: string, properties: Record<string, unknown>): NativeEvent {
  const event = readEvent(JSON.stringify({ type, properties }));
  if (event === null) throw new Error(`${type} is not an event that decides something`);
  return event;
}

export interface MessageFields {
  parent?: string;
  finish?: string;
  error?: string;
  done?: boolean;
  isSummary?: boolean;
  tokens?: Record<string, unknown>;
}

export const on = {
  created: (session: string, parent?: string, title?: string) =>
    make("session.created", { sessionID: session, info: { id: session, parentID: parent, title } }),
  status: (session: string, type: string, more: Record<string, unknown> = {}) =>
    make("session.status", { sessionID: session, status: { type, ...more } }),
  busy: (session: string) => on.status(session, "busy"),
  idle: (session: string) => make("session.idle", { sessionID: session }),
  error: (session: string | undefined, name: string, message = "") =>
    make("session.error", { sessionID: session, error: { name, data: { message } } }),
  user: (session: string, id: string) =>
    make("message.updated", {
      sessionID: session,
      info: { id, sessionID: session, role: "user", time: { created: 1 } },
    }),
  assistant: (session: string, id: string, fields: MessageFields = {}) =>
    make("message.updated", {
      sessionID: session,
      info: {
        id,
        sessionID: session,
        role: "assistant",
        parentID: fields.parent,
        finish: fields.finish,
        summary: fields.isSummary,
        tokens: fields.tokens,
        error: fields.error === undefined ? undefined : { name: fields.error, data: { message: "m" } },
        time: { created: 1, completed: fields.done === true ? 2 : undefined },
      },
    }),
  part: (session: string, message: string, part: Record<string, unknown> & { id: string; type: string }) =>
    make("message.part.updated", {
      sessionID: session,
      part: { ...part, messageID: message, sessionID: session },
    }),
  text: (session: string, message: string, id: string, text: string, isDone = false) =>
    on.part(session, message, { id, type: "text", text, time: { start: 1, end: isDone ? 2 : undefined } }),
  tool: (session: string, message: string, call: string, status: string, tool = "bash") =>
    on.part(session, message, { id: `prt_${call}`, type: "tool", tool, callID: call, state: { status } }),
  delta: (session: string, message: string, part: string, delta: string) =>
    make("message.part.delta", {
      sessionID: session,
      messageID: message,
      partID: part,
      field: "text",
      delta,
    }),
  asked: (session: string, id: string, call?: string, what: Partial<Asked> = {}) =>
    make("permission.asked", { ...permission(session, id, call), ...what }),
  replied: (session: string, id: string, reply = "once") =>
    make("permission.replied", { sessionID: session, requestID: id, reply }),
  question: (session: string, id: string, questions: unknown[] = [COLOR]) =>
    make("question.asked", { sessionID: session, id, questions }),
  questionReplied: (session: string, id: string) =>
    make("question.replied", { sessionID: session, requestID: id, answers: [["blue"]] }),
  questionRejected: (session: string, id: string) =>
    make("question.rejected", { sessionID: session, requestID: id }),
  // Kilo alone.
  turnOpen: (session: string) => make("session.turn.open", { sessionID: session }),
  turnClose: (session: string, reason = "completed") =>
    make("session.turn.close", { sessionID: session, reason }),
  offline: (session: string, id: string, message = "connection refused") =>
    make("session.network.asked", { sessionID: session, id, message, restored: false }),
  networkReplied: (session: string, id: string) =>
    make("session.network.replied", { sessionID: session, requestID: id }),
  networkRejected: (session: string, id: string) =>
    make("session.network.rejected", { sessionID: session, requestID: id }),
  removed: (session: string, message: string) =>
    make("message.removed", { sessionID: session, messageID: message }),
  partRemoved: (session: string, message: string, part: string) =>
    make("message.part.removed", { sessionID: session, messageID: message, partID: part }),
};

interface Asked {
  permission: string;
  patterns: string[];
}

/** A request for permission, as the event and the pending list give it. */
export const permission = (session: string, id: string, call?: string) => ({
  id,
  sessionID: session,
  permission: "bash",
  patterns: ["ls"],
  tool: call === undefined ? undefined : { messageID: "msg_x", callID: call },
});

/** A question with two options and room for an own answer. */
export const COLOR = {
  question: "Pick a color",
  header: "Color",
  options: [
    { label: "red", description: "r" },
    { label: "blue", description: "b" },
  ],
};
