/**
 * What is logged of noise on a CLI's stdout: that it came, how much, and how it begins; bounded in lines and characters.
 * It may hold anything, so nothing of it reaches the log that could steer a terminal or that looks like a key (law 14);
 * of a damaged message nothing at all is shown, since that is a user's or a model's text.
 */
import type { Log } from "../../log.ts";

/** Lines that are logged of one process. Beyond: counted, and the count is logged at its end. */
const NOISE_LINES = 20;
/** Characters that are shown of one line. */
const NOISE_CHARS = 200;

export interface NoiseLog {
  note(noise: string, isDamaged: boolean): void;
  /** The process has ended. */
  end(): void;
}

export function createNoiseLog(log: Log, member: string): NoiseLog {
  let lines = 0;
  return {
    note(noise, isDamaged) {
      lines += 1;
      if (lines > NOISE_LINES) return;
      const fields = { member, chars: noise.length };
      if (isDamaged) log.warn("a damaged line on the CLI's stdout", fields);
      else
        log.warn("noise on the CLI's stdout", { ...fields, begins: harmless(noise.slice(0, NOISE_CHARS)) });
    },
    end() {
      const unlogged = lines - NOISE_LINES;
      if (unlogged > 0) log.warn("more noise on the CLI's stdout", { member, lines: unlogged });
    },
  };
}

/** Without control, format and half characters, line ends of any kind, and long runs as keys have them. */
function harmless(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}\ufffd]+/gu, " ").replace(/[\w+=-]{20,}/g, "…");
}
