/** Which control event an observation is reported as, word for word. Pure; what it does to the turn is the runner's. */
import { clip } from "../protocol/errors.ts";
import type { ControlEvent } from "../protocol/events.ts";
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
      const { kind: _, ...tool } = observation;
      return { type: "turn.tool", ...ids, ...tool, tool: tool.tool.slice(0, 128), title: clip(tool.title) };
    }
    case "waiting": {
      const { kind: _, ...waiting } = observation;
      return { type: "turn.waiting", ...ids, ...waiting, reason: clip(waiting.reason) };
    }
    case "permission_asked": {
      const { kind: _, ...asked } = observation;
      return { type: "turn.permission_asked", ...ids, ...asked };
    }
    case "permission_closed": {
      const { kind: _, ...closed } = observation;
      return { type: "turn.permission_closed", ...ids, ...closed, detail: clip(closed.detail) };
    }
    case "question_asked": {
      const { kind: _, ...asked } = observation;
      return { type: "turn.question_asked", ...ids, ...asked };
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
