/** `holdfast turn show`. */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { Command } from "./command.ts";
import { iso, type Output, oneLine, seconds, table } from "./output.ts";
import { readStore } from "./read-store.ts";

export const turnShow: Command = {
  name: "turn show",
  summary: "Shows what is known of a turn: states, evidence, permissions, settlement.",
  usage: "ID [--json]",
  options: {},
  words: { min: 1, max: 1 },
  async run({ words: [id = ""], environment, output }) {
    const found = readStore(environment, (store) => ({ turn: store.turn(id), events: store.eventsOf(id) }));
    const { turn = null, events = [] } = found ?? {};
    if (turn === null) throw new HoldfastError("TURN_UNKNOWN", `no turn ${id}`);
    if (output.isJson) {
      output.json({ turn, events });
      return 0;
    }
    output.line(`turn ${turn.id}, number ${turn.number} of ${turn.member}: ${turn.state}`);
    output.line(
      `submitted ${iso(turn.submitted_at)}, ${turn.text_bytes} bytes, SHA-256 ${turn.text_sha256.slice(0, 16)}…`,
    );
    if (turn.launch !== null) output.line(`launch configuration ${turn.launch.slice(0, 16)}…`);
    for (const { at, event } of events) output.line(`  ${iso(at)}  ${event.type}`);
    if (turn.settlement !== null) showSettlement(turn.settlement, turn.queued_ms, output);
    return 0;
  },
};

/** What of it was the process's start, and the wait for that. */
function startOf(prepareMs: number | null, queuedMs: number | null): string {
  const parts = [
    ...(prepareMs === null ? [] : [`${seconds(prepareMs)} of it to have the process ready`]),
    ...(queuedMs === null || queuedMs < 1 ? [] : [`${seconds(queuedMs)} before it in the queue`]),
  ];
  return parts.length === 0 ? "" : `, ${parts.join(", ")}`;
}

function showSettlement(settlement: Settlement, queuedMs: number | null, output: Output): void {
  const { outcome, settled, context, contextReason, session, error, timings } = settlement;
  output.line();
  output.line(`outcome ${outcome}, ${settled ? "settled natively" : "not settled"}`, "bold");
  output.line(`context ${context ?? "-"}${contextReason === "" ? "" : ` (${oneLine(contextReason)})`}`);
  if (session !== null) output.line(`native id ${session.nativeId}, last message ${session.tail?.id ?? "-"}`);
  if (error !== null) output.line(`error ${error.code}: ${oneLine(error.message)}`);
  if (timings.totalMs !== null)
    output.line(`took ${seconds(timings.totalMs)}${startOf(timings.prepareMs, queuedMs)}`);
  const rows = settlement.evidence.map((piece) => [
    iso(piece.at),
    piece.source,
    piece.what,
    `${piece.processGeneration ?? "-"}/${piece.subscription ?? "-"}/${piece.sequence ?? "-"}`,
    piece.detail,
  ]);
  output.line();
  output.line(table(["AT", "SOURCE", "EVIDENCE", "PROCESS/SUBSCRIPTION/EVENT", "DETAIL"], rows));
}
