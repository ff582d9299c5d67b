/** Which requests of a turn still wait for the user, from its recorded events alone. Pure. */
import type { ControlEvent, NumberedEvent } from "../protocol/events.ts";

export type UserRequest = Extract<ControlEvent, { type: "turn.permission_asked" | "turn.question_asked" }>;

/** Oldest first. Permissions that the policy decides by itself never wait for anybody. */
export function openRequests(events: readonly NumberedEvent[]): UserRequest[] {
  const open = new Map<string, UserRequest>();
  for (const { event } of events) {
    switch (event.type) {
      case "turn.permission_asked":
        if (event.action === "ask")
          open.set(`permission ${event.request.session} ${event.request.request}`, event);
        break;
      case "turn.question_asked":
        open.set(`question ${event.question.session} ${event.question.request}`, event);
        break;
      case "turn.permission_closed":
        open.delete(`permission ${event.session} ${event.request}`);
        break;
      case "turn.question_closed":
        open.delete(`question ${event.session} ${event.request}`);
        break;
      default:
        break;
    }
  }
  return [...open.values()];
}
