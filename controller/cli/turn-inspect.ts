/** `holdfast turn inspect`: what is known of a turn, and the note with which its member may go on. */
import { HoldfastError } from "../../protocol/errors.ts";
import { CALLS_NAMED, checkNote, inspectTurn, type TurnInspection } from "../inspection.ts";
import { type Command, text } from "./command.ts";
import type { Environment } from "./environment.ts";
import { NO_MODEL, openCommandHost } from "./open.ts";
import { iso, type Output, oneLine, table } from "./output.ts";
import { readStore } from "./read-store.ts";

export const turnInspect: Command = {
  name: "turn inspect",
  summary: "Shows what is known of a turn whose end is unknown; --note lets its member go on.",
  usage: "ID [--note TEXT] [--json]    (--note: 1 to 1024 bytes, kept with the turn)",
  options: { note: { type: "string" } },
  words: { min: 1, max: 1 },
  async run({ words: [id = ""], values, environment, output }) {
    const note = text(values, "note");
    // Refused before anything is opened: a wrong note or id must not take the store.
    if (note !== undefined) checkNote(note);
    const before = look(environment, id);
    if (note !== undefined) await record(environment, output, id, note);
    const inspection = note === undefined ? before : look(environment, id);
    if (output.isJson) output.json(inspection);
    else show(inspection, output);
    return 0;
  },
};

/** Works beside the controller that owns the store. */
function look(environment: Environment, id: string): TurnInspection {
  const found = readStore(environment, (store) => {
    const turn = store.turn(id);
    const member = turn === null ? null : store.member(turn.member);
    if (turn === null || member === null) return null;
    return inspectTurn({
      turn,
      member,
      events: store.eventsOf(id),
      inspection: store.inspectionOf(id),
      calls: store.calls.list({ turn: id }, CALLS_NAMED),
    });
  });
  if (found === null) throw new HoldfastError("TURN_UNKNOWN", `no turn ${id}`);
  return found;
}

async function record(environment: Environment, output: Output, id: string, note: string): Promise<void> {
  const { host, close } = await openCommandHost({ environment, output, relay: NO_MODEL });
  try {
    host.recordInspection(id, note);
  } finally {
    await close();
  }
}

function show(inspection: TurnInspection, output: Output): void {
  const { turn, native } = inspection;
  output.line(`turn ${turn.id}, number ${turn.number} of ${turn.member}: ${turn.state}`, "bold");
  output.line(
    `sent     ${turn.text_bytes} bytes, SHA-256 ${turn.text_sha256}, submitted ${iso(turn.submitted_at)}`,
  );
  output.line(`reach    ${inspection.reach}: ${inspection.meaning}`);
  for (const piece of turn.settlement?.evidence ?? [])
    output.line(`evidence ${iso(piece.at)} ${oneLine(`${piece.source}, ${piece.what}: ${piece.detail}`)}`);
  const message = native.message === null ? "" : `, its message ${native.message}`;
  output.line(`history  ${native.cli}, session ${oneLine(`${native.nativeId ?? "not known"}${message}`)}`);
  output.line(
    `         ${native.settledTurns} settled turns before it, the last one ${oneLine(native.tail?.id ?? "-")}`,
  );
  showOpen(inspection, output);
  showCalls(inspection, output);
  if (inspection.lateEnd !== null) {
    output.line(
      `later    the bridge told of its end when the record had ended: ${inspection.lateEnd.outcome}, ` +
        `${inspection.lateEnd.settled ? "settled natively" : "not settled"}`,
    );
  }
  output.line();
  if (inspection.inspection !== null)
    output.line(`note     ${iso(inspection.inspection.at)} ${oneLine(inspection.inspection.note)}`);
  else if (inspection.needsNote) {
    output.line(`${turn.member} takes no turn before somebody has looked at this one and says so:`);
    output.line(`  ${output.command(`turn inspect ${turn.id} --note "what you found"`)}`);
  } else output.line("no note is needed: the turn is not unknown");
}

function showOpen({ openTools, openRequests }: TurnInspection, output: Output): void {
  if (openTools.length > 0) {
    output.line("tool calls that began and showed no result:");
    const rows = openTools.map(({ at, session, call, tool, title }) => [iso(at), tool, session, call, title]);
    output.line(table(["AT", "TOOL", "SESSION", "CALL", "TITLE"], rows));
  }
  for (const request of openRequests) {
    const what =
      request.type === "turn.permission_asked"
        ? `permission ${request.request.permission} (${request.request.patterns.join(", ")})`
        : `question ${request.question.items[0]?.question ?? ""}`;
    output.line(`open     ${oneLine(what)}`);
  }
}

function showCalls({ modelCalls }: TurnInspection, output: Output): void {
  if (modelCalls.length === 0) return;
  output.line("calls to the model, newest first:");
  const rows = modelCalls.map(({ startedAt, outcome, status, id, answerId, providerRequestId }) => [
    iso(startedAt),
    outcome,
    String(status ?? "-"),
    id,
    answerId ?? "-",
    providerRequestId ?? "-",
  ]);
  output.line(table(["AT", "OUTCOME", "STATUS", "CALL", "ANSWER", "REQUEST"], rows));
}
