/** Codex 0.171.0 as the suite must know it. Facts: `claude-codex-pi`, section 2. */
import { CODEX } from "../../../bridge/drivers/codex/driver.ts";
import type { MemberOptions } from "../../../controller/store/records.ts";
import { MEMBER } from "../../support/host.ts";
import type { DriverSubject } from "./subject.ts";

export const CODEX_MEMBER: MemberOptions = { ...MEMBER, model: { ...MEMBER.model, protocol: "responses" } };

export const CODEX_SUBJECT: DriverSubject = {
  manifest: CODEX.manifest,
  member: CODEX_MEMBER,
  processText: "codex app-server",
  tools: {
    shell: (cmd) => ({ name: "exec_command", arguments: { cmd } }),
    task: (message) => ({ name: "multi_agent_v1.spawn_agent", arguments: { message } }),
    taskEnd: () => ({
      name: "multi_agent_v1.wait_agent",
      arguments: { targets: ["$result.agent_id"], timeout_ms: 30_000 },
    }),
    question: () => ({
      name: "request_user_input",
      arguments: {
        questions: [
          {
            id: "colour",
            header: "Colour",
            question: "Which colour?",
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
    outputTokens: 50,
    reasoningTokens: 6,
    cacheReadTokens: 234,
    cacheWriteTokens: 0,
  },
  addition: null,
  asksAtOnce: true,
  rejected: { modelCalls: 2 },
  rejectsAll: false,
  rejectedQuestion: "completed",
  childrenAsk: "unseen",
  cutAnswer: "again",
  outOfReach: "retry",
  longWait: "heeds",
  tellsNextTry: false,
  quotaText: "429 Too Many Requests",
  overflow: "next turn",
  wakesRoot: false,
  badRequestCalls: 1,
  retiresAfterRetry: false,
  lateStore: null,
  joint: "",
  keptChars: 0,
  backgroundTools: ["create_goal"],
  ordersById: false,
  server: null,
};
