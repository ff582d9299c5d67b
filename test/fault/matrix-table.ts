/**
 * The crash matrix as data: in which state a turn is when somebody dies, who dies, and which outcomes are right then. What
 * holds in every cell whatever the outcome is `judge.ts`'s. How a state is reached and held: `matrix-states.ts`.
 */
import type { Outcome } from "../../protocol/settlement.ts";

export const STATES = [
  "unsent", // durable at the host, nothing of it sent
  "preparing", // the bridge has it and starts its process
  "gating", // the process stands still: no canary comes back
  "submitting", // its intent is journaled, its text is on the way
  "streaming", // the model answers
  "tool", // a tool runs
  "permission", // a permission waits for the user
  "settled", // the bridge has its end, the host could not store it yet
] as const;
export type State = (typeof STATES)[number];

export const VICTIMS = [
  "controller",
  "bridge", // the container ends with it
  "cli",
  "container",
  "engine", // back with live-restore: the containers are as they were
  "engine, bare", // back without: it ends the containers that outlived it
] as const;
type Victim = (typeof VICTIMS)[number];

export interface Cell {
  state: State;
  victim: Victim;
  /** Outcomes that are right; `unknown` is one where nobody can tell. */
  outcomes: readonly Outcome[];
}

/** Under the submission itself it is a matter of microseconds who was first: each is right when the model agrees. */
const UNDER_SUBMISSION: readonly Outcome[] = ["not_sent", "unknown", "failed"];

/** It goes to one who is back, or it met one who was just dying. */
const HANDED_OVER: readonly Outcome[] = ["completed", "not_sent"];

/** The bare engine asks the bridge to stop, and the bridge aborts its turn in order, unless it ended before the engine was back. */
const ROWS: Readonly<Record<State, readonly [...Array<readonly Outcome[]>]>> = {
  //             controller      bridge             cli                container          engine         engine, bare
  unsent: [["not_sent"], HANDED_OVER, HANDED_OVER, HANDED_OVER, ["completed"], HANDED_OVER],
  preparing: [
    ["completed"],
    ["not_sent"],
    ["refused"],
    ["not_sent"],
    ["completed"],
    [...HANDED_OVER, "aborted"],
  ],
  gating: [["completed"], ["not_sent"], ["not_sent"], ["not_sent"], ["completed"], ["not_sent", "aborted"]],
  submitting: [
    ["completed"],
    UNDER_SUBMISSION,
    UNDER_SUBMISSION,
    UNDER_SUBMISSION,
    ["completed"],
    [...UNDER_SUBMISSION, "aborted", "completed"],
  ],
  streaming: [["completed"], ["unknown"], ["failed"], ["unknown"], ["completed"], ["aborted"]],
  tool: [["completed"], ["unknown"], ["failed"], ["unknown"], ["completed"], ["aborted"]],
  permission: [["completed"], ["unknown"], ["failed"], ["unknown"], ["completed"], ["aborted"]],
  settled: [["completed"], ["completed"], ["completed"], ["completed"], ["completed"], ["completed"]],
};

export const CELLS: readonly Cell[] = STATES.flatMap((state) =>
  VICTIMS.map((victim, at) => ({ state, victim, outcomes: ROWS[state][at] ?? [] })),
);

/** One cell a state and a victim at least: what every run of the tests plays. */
const QUICK: ReadonlyArray<readonly [State, Victim]> = [
  ["unsent", "controller"],
  ["preparing", "bridge"],
  ["gating", "cli"],
  ["submitting", "bridge"],
  ["streaming", "container"],
  ["tool", "cli"],
  ["permission", "controller"],
  ["settled", "container"],
  ["streaming", "engine"],
  ["tool", "engine, bare"],
];

export function cellsFor(run: "quick" | "whole"): readonly Cell[] {
  if (run === "whole") return CELLS;
  return QUICK.flatMap(([state, victim]) =>
    CELLS.filter((cell) => cell.state === state && cell.victim === victim),
  );
}

/** Engine cells need an engine of their own. */
export function needsOwnEngine({ victim }: Cell): boolean {
  return victim.startsWith("engine");
}
