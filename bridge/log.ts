/**
 * One line of JSON a message on stderr, which the engine keeps as the container's log. Never a user's or a model's
 * text, never a token or a password. The only file that may write to the console.
 */

export type LogFields = Readonly<Record<string, string | number | boolean | null>>;

export interface Log {
  info(what: string, fields?: LogFields): void;
  warn(what: string, fields?: LogFields): void;
}

export function stderrLog(write: (line: string) => void = (line) => process.stderr.write(line)): Log {
  const line = (level: string, what: string, fields: LogFields = {}) =>
    write(`${JSON.stringify({ at: new Date().toISOString(), level, what, ...fields })}\n`);
  return {
    info: (what, fields) => line("info", what, fields),
    warn: (what, fields) => line("warn", what, fields),
  };
}
