// What CLIs put into the history as user text beside the user's own: told apart here, so that a script, a
// directive and recall see what the user wrote. One row a form, with the CLI and version it was seen on.
import type { Row } from "./neutral.ts";

/** Whole parts, never pieces of one: a user's text that merely begins or ends alike is the user's. */
const ADDITIONS: readonly RegExp[] = [
  // Kilo 7.7.7: the second part of each message.
  /^\s*<environment_details>[\s\S]*<\/environment_details>\s*$/,
  // Claude Code 2.1.220 before the first text of a process, 2.1.332 before each; both behind tool results.
  /^<system-reminder>\n[\s\S]*<\/system-reminder>\s*$/,
  // Claude Code, 2.1.332 inside a reminder: after a reply that reached its limit.
  /^Output token limit hit\. Resume directly — no apology, no recap of what you were doing\./,
  // Claude Code, after an interrupt.
  /^\[Request interrupted by user(?: for tool use)?\]\s*$/,
  // Claude Code, after a compaction and after a command of its own.
  /^This session is being continued from a previous conversation that ran out of context\./,
  /^<(local-command-caveat|command-name|local-command-stdout)>[\s\S]*<\/[a-z-]+>\s*$/,
  // Codex 0.171.0, before the first text and again when one of them changed.
  /^<environment_context>[\s\S]*<\/environment_context>\s*$/,
  /^# AGENTS\.md instructions for [\s\S]*<\/INSTRUCTIONS>\s*$/,
  // Codex, when a subagent ended, also in the middle of a turn; after an interrupt; after a compaction.
  /^<subagent_notification>[\s\S]*<\/subagent_notification>\s*$/,
  /^<turn_aborted>[\s\S]*<\/turn_aborted>\s*$/,
  /^Another language model started to solve this problem and produced a summary of its thinking process\./,
];

/** Claude Code's word to itself when a background task ended (2.1.332: in a reminder): not the user's, yet the start of a turn. */
const NOTICE = /^(?:<system-reminder>\n)?\[SYSTEM NOTIFICATION - NOT USER INPUT\]\n/;

/** The parts that the user wrote; none for rows of the model and of tools. */
export function ownTexts(row: Row): string[] {
  return startTexts(row).filter((text) => !NOTICE.test(text));
}

/** The parts that a turn starts with: the user's own, and what a CLI tells itself in the user's place. */
export function startTexts(row: Row): string[] {
  if (row.role !== "user") return [];
  return row.texts.filter((text) => NOTICE.test(text) || !ADDITIONS.some((form) => form.test(text)));
}
