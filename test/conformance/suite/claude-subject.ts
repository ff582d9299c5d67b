/** Claude Code as the suite must know it, by its pinned version. Facts: `claude-codex-pi`, section 1. */
import { readFileSync } from "node:fs";
import { CLAUDE_RANGES, createClaudeDriver } from "../../../bridge/drivers/claude/driver.ts";
import { transcriptPath } from "../../../bridge/drivers/claude/history.ts";
import { holdsFor } from "../../../bridge/drivers/version-range.ts";
import type { MemberOptions } from "../../../controller/store/records.ts";
import { MEMBER } from "../../support/host.ts";
import type { DriverSubject } from "./subject.ts";

/** The seeds' pin, and the one that the image ships. */
export const CLAUDE_VERSIONS = ["2.1.220", "2.1.332"] as const;
export type ClaudeVersion = (typeof CLAUDE_VERSIONS)[number];

const bundle = JSON.parse(readFileSync(new URL("../../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; version: string; command: string[] }>;
};

/** The pinned binary, for tests that drive it without a host. */
export function claudeCommand(version: ClaudeVersion): string[] {
  const found = bundle.clis.find((each) => each.cli === "claude" && each.version === version);
  if (found === undefined) throw new Error(`Claude Code ${version} is not in the bundle`);
  return found.command;
}

export const CLAUDE_MEMBER: MemberOptions = { ...MEMBER, model: { ...MEMBER.model, protocol: "messages" } };

export function claudeSubject(version: ClaudeVersion): DriverSubject {
  const { retire_after_retry: retirement } = CLAUDE_RANGES;
  return {
    manifest: createClaudeDriver().manifest,
    member: CLAUDE_MEMBER,
    processText: "--permission-prompt-tool stdio",
    tools: {
      shell: (command) => ({ name: "Bash", arguments: { command, description: "a test's command" } }),
      task: (prompt, { background } = {}) => ({
        name: "Agent",
        arguments: {
          description: "a test's task",
          prompt,
          subagent_type: "general-purpose",
          ...(background === undefined ? {} : { run_in_background: background }),
        },
      }),
      taskEnd: null,
      question: () => ({
        name: "AskUserQuestion",
        arguments: {
          questions: [
            {
              question: "Which colour?",
              header: "Colour",
              multiSelect: false,
              options: [
                { label: "blue", description: "as the sea" },
                { label: "green", description: "as kelp" },
              ],
            },
          ],
        },
      }),
    },
    usage: {
      source: "cli",
      inputTokens: 1000,
      outputTokens: 56,
      reasoningTokens: null,
      cacheReadTokens: 234,
      cacheWriteTokens: 0,
    },
    addition: null,
    asksAtOnce: false,
    rejected: { modelCalls: 2 },
    rejectsAll: false,
    rejectedQuestion: "failed",
    childrenAsk: false,
    cutAnswer: "again",
    outOfReach: "retry",
    longWait: "gives up",
    tellsNextTry: true,
    quotaText: "the quota is spent",
    overflow: version === "2.1.220" ? "never" : "same turn",
    wakesRoot: true,
    badRequestCalls: version === "2.1.220" ? 1 : 6,
    retiresAfterRetry: retirement !== undefined && holdsFor(retirement, version),
    lateStore: (home, { directory, nativeId }) => transcriptPath(home, directory, nativeId),
    joint: "\n",
    keptChars: 0,
    backgroundTools: ["CronCreate", "ScheduleWakeup", "Monitor", "Workflow"],
    ordersById: false,
    server: null,
  };
}
