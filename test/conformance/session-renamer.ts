/**
 * Stands before a CLI on stdio and lets it name another session than its own (public case P20), as a rule file says:
 *
 *   node session-renamer.ts RULE CLI ARGUMENTS...
 *     RULE holds `SUBTYPE ID`: system messages of that subtype carry the id ID. Empty, or not there: all as it comes.
 *
 * The CLI itself, its history and what it asks the model stay as they are.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

if (import.meta.main) {
  const [rulePath = "", file = "", ...args] = process.argv.slice(2);
  const cli = spawn(file, args, { stdio: ["inherit", "pipe", "inherit"] });
  cli.once("exit", (code) => process.exit(code ?? 1));
  process.on("SIGTERM", () => cli.kill("SIGTERM"));
  createInterface({ input: cli.stdout, crlfDelay: Number.POSITIVE_INFINITY }).on("line", (line) => {
    process.stdout.write(`${renamed(line)}\n`);
  });

  function renamed(line: string): string {
    const [subtype = "", id = ""] = existsSync(rulePath) ? readFileSync(rulePath, "utf8").split(" ") : [];
    if (subtype === "" || !line.startsWith("{")) return line;
    const message = JSON.parse(line) as Record<string, unknown>;
    if (message.type !== "system" || message.subtype !== subtype) return line;
    return JSON.stringify({ ...message, session_id: id });
  }
}
