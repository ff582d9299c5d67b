/**
 * What the CLI does between our turns: background work, continuations of its own. Noted by session, reported once at its
 * start and once at its end, and never part of a turn that has ended. Pure.
 */
import type { NativeEvent } from "./native-event.ts";

/** Sessions followed at once. Beyond: further ones are not reported; a CLI with so many is noticed by the first. */
const SESSIONS = 64;

export interface UnrequestedWatch {
  take(event: NativeEvent): void;
  isWorking(session: string): boolean;
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
    take({ type, properties }) {
      if (type === "session.status") {
        const { sessionID, status } = properties;
        if (status.type !== "idle") start(sessionID, `status ${status.type}`);
        else if (working.delete(sessionID)) report(sessionID, "ended", "idle");
      } else if (type === "permission.asked") {
        start(properties.sessionID, `asks for permission (${properties.permission}); nobody answers`);
      } else if (type === "question.asked") {
        start(properties.sessionID, "asks a question; nobody answers");
      } else if (type === "session.network.asked") {
        start(properties.sessionID, "its provider is out of reach");
      }
    },
    isWorking: (session) => working.has(session),
    end(why) {
      for (const session of working) report(session, "ended", why);
      working.clear();
    },
  };
}
