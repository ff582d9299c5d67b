/** Pi 1.6.0 as the suite must know it. Facts: `claude-codex-pi`, section 3. */
import { readFileSync } from "node:fs";
import { PI } from "../../../bridge/drivers/pi/driver.ts";
import { MEMBER } from "../../support/host.ts";
import type { DriverSubject } from "./subject.ts";

const bundle = JSON.parse(readFileSync(new URL("../../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; command: string[] }>;
};

/** The pinned command; arguments behind it come before those of the driver. */
export const PI_COMMAND: readonly string[] = bundle.clis.find(({ cli }) => cli === "pi")?.command ?? [];

export const PI_SUBJECT: DriverSubject = {
  manifest: PI.manifest,
  member: MEMBER,
  // It writes its title over its arguments: they are gone.
  processText: "pi  ",
  tools: {
    shell: (command) => ({ name: "bash", arguments: { command } }),
    task: null,
    taskEnd: null,
    question: () => ({
      name: "question",
      arguments: {
        questions: [
          {
            question: "Which colour?",
            header: "Colour",
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
  asksAtOnce: false,
  rejected: { modelCalls: 2 },
  rejectsAll: false,
  rejectedQuestion: "failed",
  childrenAsk: false,
  cutAnswer: "again",
  outOfReach: "retry",
  longWait: "tries again",
  tellsNextTry: true,
  quotaText: "the quota is spent",
  overflow: "same turn",
  wakesRoot: true,
  badRequestCalls: 1,
  retiresAfterRetry: false,
  lateStore: null,
  joint: "",
  // 20,000 tokens, by its own estimate of four characters each.
  keptChars: 80_000,
  backgroundTools: [],
  ordersById: false,
  server: null,
};
