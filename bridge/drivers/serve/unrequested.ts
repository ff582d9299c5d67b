/**
 * What the CLI does between our turns: background work, continuations of its own. Noted by session, reported once at its
 * start and once at its end, and never part of a turn that has ended. Pure.
 */
import type { NativeEvent } from "./native-event.ts";

/** Sessions followed at once. Beyond: further ones are not reported; a CLI with so many is noticed by the first. */
const SESSIONS = 64;

export interface UnrequestedWatch {
  take(event: NativeEvent): void;
  /** A turn of ours begins: what still runs is its business from here on. */
  end(why: string): void;
}

export function watchUnrequested(
  report: (session: string, state: "started" | "ended", detail: string) => void,
): UnrequestedWatch {
  const working = new Set<string>();

  function start(session: string, detail: string): void {
    if (working.has(session) || working.size >= SESSIONS) return;
    working.add(session);
    report(session, "started", detail);
  }

  return {
    take(event) {
      switch (event.type) {
        case "session.status": {
          const { sessionID, status } = event.properties;
          if (status.type !== "idle") return start(sessionID, `status ${status.type}`);
          if (working.delete(sessionID)) report(sessionID, "ended", "idle");
          return;
        }
        case "permission.asked":
          return start(
            event.properties.sessionID,
            `asks for permission (${event.properties.permission}); nobody answers`,
          );
        case "question.asked":
          return start(event.properties.sessionID, "asks a question; nobody answers");
        case "session.network.asked":
          return start(event.properties.sessionID, "its provider is out of reach");
        default:
          return;
      }
    },
    end(why) {
      for (const session of working) report(session, "ended", why);
      working.clear();
    },
  };
}
