/** Which requests of a turn still wait for the user, from its recorded events alone. Pure. */
import type { ControlEvent, NumberedEvent } from "../protocol/events.ts";

export type UserRequest = Extract<ControlEvent, { type: "turn.permission_asked" | "turn.question_asked" }>;

/** Oldest first. Permissions that the policy decides by itself never wait for anybody. */
export function openRequests(events: readonly NumberedEvent[]): UserRequest[] {
  const open = new Map<string, UserRequest>();
  for (const { event } of events) {
    if (event.type === "turn.permission_asked") {
      if (event.action === "ask") open.set(keyOf("permission", event.request), event);
    } else if (event.type === "turn.question_asked") {
      open.set(keyOf("question", event.question), event);
    } else if (event.type === "turn.permission_closed") {
      open.delete(keyOf("permission", event));
    } else if (event.type === "turn.question_closed") {
      open.delete(keyOf("question", event));
    }
  }
  return [...open.values()];
}

/** One id may be used by two sessions, and by both kinds. */
export function keyOf(kind: "permission" | "question", of: { session: string; request: string }): string {
  return `${kind} ${of.session} ${of.request}`;
}
