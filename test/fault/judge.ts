/**
 * The invariants of a turn through a fault, judged from what was recorded and from what the model received: law 3 (at most
 * once), law 6 and 10 (one outcome), law 7 (the locator is the old one or the new one), law 11 (unknown is a value). Pure.
 */
import type { MemberRow, TurnRow } from "../../controller/store/records.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Locator } from "../../protocol/locator.ts";
import { isOpen } from "../../protocol/record-state.ts";
import type { ModelRequest } from "../support/model/records.ts";
import { userTexts } from "../support/turns.ts";

export interface Told {
  /** The turn's text; no other turn of the member has it. */
  text: string;
  /** The member before the turn. */
  before: { locator: Locator | null; settledTurns: number };
  member: MemberRow;
  turn: TurnRow;
  /** Everything recorded of the turn. */
  events: readonly ControlEvent[];
  /** What the model received since before the turn. */
  requests: readonly ModelRequest[];
  /** The text that a turn which ran to its end must have. */
  whole: string;
}

/** Steps that a turn takes once or never. */
const ONCE: ReadonlyArray<ControlEvent["type"]> = [
  "turn.accepted",
  "turn.context",
  "turn.gated",
  "turn.submitting",
  "turn.delivered",
  "turn.ended",
];

export interface Verdict {
  violations: string[];
  /** Requests that the CLI repeated by itself, since the answer to the earlier one was cut. */
  retries: number;
}

export function judge(told: Told): Verdict {
  const { requests, retries } = judgeRequests(told);
  return { violations: [...requests, ...judgeRecord(told), ...judgeLocator(told)], retries };
}

function judgeRequests({ text, turn, requests }: Told): { requests: string[]; retries: number } {
  const problems: string[] = [];
  const ofTurn = requests.filter((request) => userTexts(request).includes(text));
  const rounds = Map.groupBy(ofTurn, ({ answer }) => answer?.round ?? 0);
  let retries = 0;
  for (const [round, asked] of rounds) {
    retries += asked.length - 1;
    // Asked again by the CLI itself, and only since its earlier request got no whole answer.
    for (const earlier of asked.slice(0, -1)) {
      if (earlier.ending === "completed") problems.push(`step ${round} was asked again after a whole answer`);
    }
  }
  for (const request of ofTurn) {
    const times = userTexts(request).filter((each) => each === text).length;
    if (times > 1) problems.push(`the text is in a request ${times} times`);
  }
  const outcome = turn.settlement?.outcome;
  if ((outcome === "not_sent" || outcome === "refused") && ofTurn.length > 0)
    problems.push(`the turn is ${outcome}, and the model has its text`);
  return { requests: problems, retries };
}

function judgeRecord({ turn, events, whole }: Told): string[] {
  const problems: string[] = [];
  for (const type of ONCE) {
    const times = events.filter((event) => event.type === type).length;
    if (times > 1) problems.push(`${type} took effect ${times} times`);
  }
  const { settlement } = turn;
  if (settlement === null || turn.ended_at === null) return [...problems, "the turn has no outcome"];
  const isFit =
    !isOpen(turn.state) &&
    (turn.state === "unknown") === (settlement.outcome === "unknown") &&
    (turn.state === "settled") === settlement.settled;
  if (!isFit) problems.push(`the record says ${turn.state}, the settlement ${settlement.outcome}`);
  if (settlement.outcome === "completed" && settlement.parts.join("") !== whole)
    problems.push(`completed with ${JSON.stringify(settlement.parts.join("")).slice(0, 200)}`);
  if (settlement.outcome === "completed" && !settlement.settled) problems.push("completed and not settled");
  return problems;
}

function judgeLocator({ before, member, turn }: Told): string[] {
  const { settlement } = turn;
  const isNew = settlement?.settled === true;
  if (!isNew) {
    const isOld =
      same(member.locator, before.locator) &&
      member.settled_turns === before.settledTurns &&
      member.pending_locator === null;
    return isOld ? [] : ["nothing settled, and the locator is not the old one"];
  }
  const { locator } = member;
  const session = settlement.session;
  const fits =
    locator !== null &&
    session !== null &&
    locator.nativeId === session.nativeId &&
    same(locator.tail, session.tail ?? before.locator?.tail ?? null) &&
    locator.settledTurns === before.settledTurns + 1 &&
    member.settled_turns === before.settledTurns + 1 &&
    (before.locator === null || locator.nativeId === before.locator.nativeId);
  return fits ? [] : ["the turn settled, and the locator is not its own"];
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
