// Claude Code's messages as they were recorded (test/captures/claude), and the turns among them.
import { readFileSync } from "node:fs";
import { type NativeMessage, readMessage } from "../../../../bridge/drivers/claude/native-message.ts";

const folder = new URL("../../../captures/claude/", import.meta.url);

interface Row {
  /** The recorder names the process where there were several. */
  ch: string;
  d: Record<string, unknown>;
}

export function rowsOf(name: string): Row[] {
  return readFileSync(new URL(`${name}.ndjson`, folder), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row);
}

export function known(raw: Record<string, unknown>): NativeMessage {
  const reading = readMessage(raw);
  if (reading.kind !== "known") throw new Error(`not known: ${JSON.stringify(raw)}`);
  return reading.message;
}

/** One turn of a recording: the uuid of the user's message with this text, and what was printed up to the next one. */
export function turnOf(name: string, text: string): { own: string; messages: NativeMessage[] } {
  const rows = rowsOf(name);
  const isPrompt = ({ ch, d }: Row) => ch === "stdin" && d.type === "user";
  const at = rows.findIndex((row) => isPrompt(row) && JSON.stringify(row.d.message).includes(`"${text}"`));
  if (at < 0) throw new Error(`${name} has no turn ${text}`);
  const behind = rows.slice(at + 1);
  const next = behind.findIndex(isPrompt);
  const messages = (next < 0 ? behind : behind.slice(0, next)).flatMap(({ ch, d }) => {
    const reading = ch === "stdout" ? readMessage(d) : null;
    return reading?.kind === "known" ? [reading.message] : [];
  });
  return { own: String(rows[at]?.d.uuid), messages };
}
