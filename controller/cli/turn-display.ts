/** How a turn is shown to somebody who waits for it: its text as it comes, notes, and one line at its end. */
import type { ControlEvent } from "../../protocol/events.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Ancestry } from "../../protocol/question.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { TurnHandle, TurnUpdate } from "../turn-handle.ts";
import { type Output, oneLine, seconds } from "./output.ts";

/** Silence after which it is said what is being waited for. */
const SILENCE_MS = 1500;

/**
 * Shows a turn as it goes, and its settlement. Throws what the handle throws: STOPPED, OVERLOADED.
 * @param onEvent gets each event once it was shown
 * @param awaited what a turn that says nothing at first is waiting for
 */
export async function show(
  turn: TurnHandle,
  output: Output,
  awaited = "starting the sandbox",
  onEvent: (event: ControlEvent) => void = () => undefined,
): Promise<Settlement> {
  const shown = new Map<string, string>();
  let last: string | null = null;
  const waiting = sayWhatIsAwaited(output, awaited);
  try {
    for await (const update of turn) {
      waiting.saw(update);
      if (output.isJson) output.json(update);
      else if (update.kind === "text") {
        if (last !== null && last !== update.part) output.endLine();
        last = update.part;
        const { text, isReplaced, known } = addText(shown.get(update.part) ?? "", update);
        shown.set(update.part, known);
        if (isReplaced) {
          output.endLine();
          output.progress("[the text above is replaced]", "dim");
        }
        output.piece(text);
      } else if (update.kind === "event") {
        const note = noteOf(update.entry.event);
        if (note !== null) output.progress(note, "dim");
        onEvent(update.entry.event);
      }
    }
  } finally {
    waiting.end();
    output.endLine();
  }
  const settlement = await turn.settlement;
  if (!output.isJson) output.progress(summary(settlement), "dim");
  return settlement;
}

/** What an update adds to the part's text so far; a repeated snapshot adds nothing. */
export function addText(
  before: string,
  update: { from: number; text: string },
): { text: string; isReplaced: boolean; known: string } {
  const known = before.slice(0, update.from) + update.text;
  if (known.startsWith(before)) return { text: known.slice(before.length), isReplaced: false, known };
  return { text: known, isReplaced: true, known };
}

/** One line about an event that somebody who waits wants to see, or null. */
export function noteOf(event: ControlEvent): string | null {
  const note = rawNoteOf(event);
  return note === null ? null : `[${oneLine(note)}]`;
}

function rawNoteOf(event: ControlEvent): string | null {
  switch (event.type) {
    case "turn.context":
      return `${event.status}: ${event.reason}`;
    case "turn.waiting":
      return `waiting on provider: ${event.reason}, try ${event.attempt}`;
    case "turn.tool":
      return `${event.tool} ${event.status}${event.title === "" ? "" : `: ${event.title}`}`;
    case "turn.permission_asked":
      return `permission asked${byWhom(event.ancestry)}: ${event.request.permission} ${event.request.patterns.join(", ")}`;
    case "turn.permission_closed":
      return `permission ${event.reply ?? "-"}: ${event.result}`;
    case "turn.question_asked":
      return `question asked${byWhom(event.question.ancestry)}`;
    case "turn.question_closed":
      return `question ${event.reply ?? "-"}${event.by === "deadline" ? " at its limit" : ""}: ${event.result}`;
    case "turn.accepted":
    case "turn.gated":
    case "turn.submitting":
    case "turn.delivered":
    case "turn.ended":
    case "turn.vetoed":
    case "member.process":
    case "member.subscription":
    case "member.unrequested":
      return null;
  }
}

/** Where a request comes from, when it is not the root's own: "by task 'explore' under ...". */
export function byWhom(ancestry: Ancestry): string {
  const tasks = ancestry.slice(0, -1).map(({ session, title }) => `'${title === "" ? session : title}'`);
  return tasks.length === 0 ? "" : ` by task ${tasks.join(" under ")}`;
}

/** Status, reason, outcome, evidence in one line. */
export function summary(settlement: Settlement): string {
  const { outcome, settled, context, contextReason, error, timings, evidence } = settlement;
  const last = endEvidence(evidence);
  const parts = [
    context ?? "-",
    `${outcome}${settled ? ", settled" : ", not settled"}`,
    last === undefined ? null : `by ${last.what}`,
    error === null ? null : `${error.code}: ${error.message}`,
    // An error's message says the same when the context is what was refused.
    context === "LOST" && error?.message !== contextReason ? contextReason : null,
    timings.totalMs === null ? null : seconds(timings.totalMs),
  ];
  return `[${oneLine(parts.filter((part) => part !== null && part !== "").join(" · "))}]`;
}

/** The piece that a verdict rests on: what the native stream showed last, or else the last piece of all. */
export function endEvidence(evidence: readonly Evidence[]): Evidence | undefined {
  const inTime = evidence.filter(({ what }) => !what.startsWith("late_"));
  return inTime.findLast(({ source }) => source === "stream") ?? inTime.at(-1);
}

/** Says once per silence what a silent turn waits for. */
function sayWhatIsAwaited(output: Output, first: string): { saw(update: TurnUpdate): void; end(): void } {
  let timer: NodeJS.Timeout | undefined;
  const expect = (what: string | null) => {
    clearTimeout(timer);
    if (what !== null) timer = setTimeout(() => output.progress(`[${what}]`, "dim"), SILENCE_MS);
  };
  expect(first);
  return {
    saw(update) {
      if (update.kind !== "event") return expect(null);
      const { type } = update.entry.event;
      if (type === "turn.accepted") expect("starting the agent");
      if (type === "turn.delivered") expect("waiting for the model");
      if (type === "turn.tool" || type === "turn.waiting") expect(null);
    },
    end: () => expect(null),
  };
}
