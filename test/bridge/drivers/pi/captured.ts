// Pi's messages as they were recorded (test/captures/pi; made with 1.6.0), and the turns among them.
import { readdirSync, readFileSync } from "node:fs";
import { type NativeMessage, readNative } from "../../../../bridge/drivers/pi/native-message.ts";

const folder = new URL("../../../captures/pi/", import.meta.url);

interface Row {
  /** The recorder names the process where there were several. */
  ch: string;
  d: Record<string, unknown>;
}

export const captureNames = (): string[] => readdirSync(folder).map((name) => name.replace(/\.ndjson$/, ""));

export function rowsOf(name: string): Row[] {
  return readFileSync(new URL(`${name}.ndjson`, folder), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Row)
    .map(({ ch, d }) => ({ ch: ch.replace(/^p\d:/, ""), d }));
}

/** Everything that pi printed behind the prompt with this text, to the end of the recording. */
export function behindPrompt(name: string, text: string): NativeMessage[] {
  const rows = rowsOf(name);
  const at = rows.findIndex(({ ch, d }) => ch === "stdin" && d.type === "prompt" && d.message === text);
  if (at < 0) throw new Error(`${name} has no prompt ${text}`);
  return rows.slice(at).flatMap(({ ch, d }) => {
    const message = ch === "stdout" ? readNative(d) : null;
    return message === null ? [] : [message];
  });
}
