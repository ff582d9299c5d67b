/** `holdfast chat`: a conversation in the terminal. Each line is a message; each turn says its status and settlement. */
import { createInterface } from "node:readline";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { Host } from "../host.ts";
import type { TurnHandle } from "../turn-handle.ts";
import { type Command, MODEL_OPTIONS, MODEL_USAGE, text } from "./command.ts";
import { readModel } from "./environment.ts";
import { chooseKind, openCommandHost } from "./open.ts";
import { type Output, oneLine, printable, seconds } from "./output.ts";

export const chat: Command = {
  name: "chat",
  summary:
    "Talks with an agent in a sandbox; Ctrl-C aborts a turn, Ctrl-D leaves (the conversation is kept).",
  usage: `${MODEL_USAGE} [--sandbox docker|process] [--member ID]`,
  options: { ...MODEL_OPTIONS, sandbox: { type: "string" }, member: { type: "string" } },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    const settings = readModel(values);
    if (settings === null) throw new HoldfastError("USAGE", "chat needs --base-url and --model");
    const { host, setup, close } = await openCommandHost({ environment, output, route: settings.route });
    try {
      const asked = text(values, "member");
      const member = asked === undefined ? await makeMember() : host.member(asked).id;
      await converse(host, member, output);
      output.progress(`kept: holdfast chat --member ${member} goes on with it`);
      return 0;
    } finally {
      await close();
    }

    async function makeMember(): Promise<string> {
      const kind = await chooseKind(text(values, "sandbox"), setup, output);
      const sandbox = host.createSandbox({ kind }).id;
      return host.createMember({ sandbox, cli: "opencode", ...memberOptions(settings?.model ?? "") }).id;
    }
  },
};

/** The settings of a member that the command line makes. */
export function memberOptions(model: string) {
  return {
    model: { name: model, protocol: "chat-completions" as const, contextTokens: 128_000, outputTokens: 8192 },
    permissions: { policy: "allow" as const, askedTools: [] },
  };
}

async function converse(host: Host, member: string, output: Output): Promise<void> {
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const lines = createInterface({
    input: process.stdin,
    output: isTerminal ? process.stdout : undefined,
    terminal: isTerminal,
  });
  let turn: TurnHandle | null = null;
  const abort = () => {
    if (turn === null) return lines.close();
    output.progress("\naborting the turn");
    turn.abort().catch((error: unknown) => output.progress(`holdfast: the abort failed: ${String(error)}`));
  };
  lines.on("SIGINT", abort);
  process.on("SIGINT", abort);
  try {
    lines.setPrompt("> ");
    if (isTerminal) lines.prompt();
    for await (const line of lines) {
      if (line.trim() !== "") {
        turn = host.submit(member, line);
        await show(turn, output);
        turn = null;
      }
      if (isTerminal) lines.prompt();
    }
  } finally {
    process.off("SIGINT", abort);
    lines.close();
  }
}

/** Shows a turn as it goes, and its settlement. */
export async function show(turn: TurnHandle, output: Output): Promise<Settlement> {
  const shownChars = new Map<string, number>();
  for await (const update of turn) {
    if (output.isJson) output.json(update);
    else if (update.kind === "text") {
      const known = shownChars.get(update.part) ?? 0;
      // Text that replaces what was shown (a retried attempt) begins on a line of its own.
      if (update.from < known) output.piece(update.text === "" ? output.dim(" [withdrawn]") : "\n");
      else if (known === 0 && shownChars.size > 0) output.piece("\n");
      output.piece(printable(update.text));
      shownChars.set(update.part, update.from + update.text.length);
    } else if (update.kind === "event") {
      const note = noteOf(update.entry.event);
      if (note !== null) output.progress(output.dim(note));
    }
  }
  const settlement = await turn.settlement;
  if (!output.isJson) {
    output.line();
    output.line(output.dim(summary(settlement)));
  }
  return settlement;
}

/** One line about an event that somebody who waits wants to see, or null. */
export function noteOf(event: ControlEvent): string | null {
  switch (event.type) {
    case "turn.context":
      return `[${event.status}: ${oneLine(event.reason)}]`;
    case "turn.waiting":
      return `[waiting on provider: ${oneLine(event.reason)}, try ${event.attempt}]`;
    case "turn.tool":
      return `[${event.tool} ${event.status}${event.title === "" ? "" : `: ${oneLine(event.title)}`}]`;
    case "turn.permission_asked":
      return `[permission asked: ${event.request.permission} ${oneLine(event.request.patterns.join(", "))}]`;
    case "turn.permission_closed":
      return `[permission ${event.reply ?? "-"}: ${event.result}]`;
    default:
      return null;
  }
}

/** Status, reason, outcome, evidence in one line. */
export function summary(settlement: Settlement): string {
  const { outcome, settled, context, error, timings, evidence } = settlement;
  const last = endEvidence(evidence);
  const parts = [
    `${context ?? "-"}`,
    `${outcome}${settled ? ", settled" : ", not settled"}`,
    last === undefined ? null : `by ${last.what}`,
    error === null ? null : `${error.code}: ${oneLine(error.message)}`,
    timings.totalMs === null ? null : seconds(timings.totalMs),
  ];
  return `[${parts.filter((part) => part !== null).join(" · ")}]`;
}

/** The piece that a verdict rests on: what the native stream showed last, or else the last piece of all. */
export function endEvidence(evidence: readonly Evidence[]): Evidence | undefined {
  const inTime = evidence.filter(({ what }) => !what.startsWith("late_"));
  return inTime.findLast(({ source }) => source === "stream") ?? inTime.at(-1);
}
