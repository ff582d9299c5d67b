/**
 * Which control event an observation is reported as, word for word but for what does not fit the wire: an event that is
 * refused ends the bridge, and the ids of tool calls are the provider's. Pure; what it does to the turn is the runner's.
 */
import { clip } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
import { Count, Instant, NativeId } from "../protocol/ids.ts";
import type { Ancestry } from "../protocol/question.ts";
import type { Observation } from "./drivers/driver.ts";

/** Observations that are recorded and move no turn. */
export type Recorded = Extract<
  Observation,
  {
    kind:
      | "tool"
      | "waiting"
      | "permission_asked"
      | "permission_closed"
      | "question_asked"
      | "question_closed";
  }
>;

export function observedEvent(ids: { member: string; turn: string }, observation: Recorded): ControlEvent {
  switch (observation.kind) {
    case "tool": {
      const { kind: _, session, call, tool, title, status } = observation;
      return {
        type: "turn.tool",
        ...ids,
        session: fittingId(session),
        call: fittingId(call),
        tool: tool.slice(0, 128),
        status,
        title: clip(title),
      };
    }
    case "waiting": {
      const { kind: _, reason, attempt, nextAt } = observation;
      return {
        type: "turn.waiting",
        ...ids,
        reason: clip(reason),
        attempt: Count.safeParse(attempt).data ?? 0,
        nextAt: Instant.safeParse(nextAt).data ?? null,
      };
    }
    case "permission_asked": {
      const { kind: _, ancestry, ...asked } = observation;
      return { type: "turn.permission_asked", ...ids, ...asked, ancestry: fittingPath(ancestry) };
    }
    case "permission_closed": {
      const { kind: _, ...closed } = observation;
      return { type: "turn.permission_closed", ...ids, ...closed, detail: clip(closed.detail) };
    }
    case "question_asked": {
      const { question, deadlineAt } = observation;
      return {
        type: "turn.question_asked",
        ...ids,
        question: { ...question, ancestry: fittingPath(question.ancestry) },
        deadlineAt: Math.max(0, deadlineAt),
      };
    }
    case "question_closed": {
      const { kind: _, ...closed } = observation;
      return { type: "turn.question_closed", ...ids, ...closed, detail: clip(closed.detail) };
    }
    default: {
      const never: never = observation;
      throw new TypeError(`observation ${String(never)} is not handled`);
    }
  }
}

/** Ids on the wire are as long at most. */
const ID_CHARS = 256;

/** The id itself, or, when it does not fit the wire, one that shows what it is: for whoever watches, not to be used. */
export function fittingId(id: string): string {
  if (NativeId.safeParse(id).success) return id;
  return id.slice(0, ID_CHARS).replace(/[^!-~\u00a0-\uffff]/g, "_") || "_";
}

const fittingPath = (path: Ancestry): Ancestry =>
  path.map(({ session, title }) => ({ session: fittingId(session), title }));
