// A log that keeps its lines for the test to look at.
import type { Log, LogFields } from "../../bridge/log.ts";

export interface KeptLog extends Log {
  readonly lines: Array<{ level: "info" | "warn"; what: string; fields: LogFields }>;
}

export function keptLog(): KeptLog {
  const lines: KeptLog["lines"] = [];
  return {
    lines,
    info: (what, fields = {}) => lines.push({ level: "info", what, fields }),
    warn: (what, fields = {}) => lines.push({ level: "warn", what, fields }),
  };
}
