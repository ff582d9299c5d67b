/** What the subjects of the CLIs with a server of their own have in common: the fork calls its tools as the original does. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { DRIVERS } from "../../../bridge/drivers/registry.ts";
import type { CliName } from "../../../protocol/locator.ts";
import { MEMBER } from "../../support/host.ts";
import { RELAY } from "../server-relay.ts";
import type { DriverSubject } from "./subject.ts";

const bundle = JSON.parse(readFileSync(new URL("../../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; command: string[] }>;
};
const relay = fileURLToPath(new URL(`../${RELAY}.ts`, import.meta.url));

function served(cli: CliName) {
  const driver = DRIVERS.get(cli);
  const binary = bundle.clis.find((each) => each.cli === cli)?.command[0];
  if (driver === undefined || binary === undefined)
    throw new Error(`there is no driver or no binary for ${cli}`);
  return {
    manifest: driver.manifest,
    member: MEMBER,
    processText: `${cli} serve`,
    tools: {
      shell: (command) => ({ name: "bash", arguments: { command, description: "a test's command" } }),
      task: (prompt, more = {}) => ({
        name: "task",
        arguments: { description: "a test's task", prompt, subagent_type: "general", ...more },
      }),
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
    server: {
      userName: cli,
      passwordVariable: `${cli.toUpperCase()}_SERVER_PASSWORD`,
      relay: (requests: string) => [process.execPath, relay, requests, binary],
      settingsPath: `config/${cli}/${cli}.json`,
    },
  } satisfies Partial<DriverSubject>;
}

/** Facts: `opencode-kilo`. */
export const OPENCODE_SUBJECT: DriverSubject = {
  ...served("opencode"),
  addition: null,
  asksAtOnce: true,
  rejected: { modelCalls: 1 },
  rejectsAll: true,
  rejectedQuestion: "failed",
  childrenAsk: true,
  cutAnswer: "again",
  outOfReach: "retry",
  longWait: "heeds",
  tellsNextTry: true,
  quotaText: "the quota is spent",
  overflow: "same turn",
  wakesRoot: true,
  badRequestCalls: 1,
  retiresAfterRetry: false,
  lateStore: null,
  joint: "",
  keptChars: 0,
  backgroundTools: [],
  ordersById: false,
};

export const KILO_SUBJECT: DriverSubject = {
  ...served("kilo"),
  addition: /^\s*<environment_details>/,
  asksAtOnce: true,
  rejected: { modelCalls: 1 },
  rejectsAll: true,
  rejectedQuestion: "completed",
  childrenAsk: false,
  cutAnswer: "again or failed",
  outOfReach: "parked",
  longWait: "heeds",
  tellsNextTry: true,
  quotaText: "the quota is spent",
  overflow: "same turn",
  wakesRoot: true,
  badRequestCalls: 1,
  retiresAfterRetry: false,
  lateStore: null,
  joint: "",
  keptChars: 0,
  backgroundTools: ["schedule_wakeup", "background_process"],
  ordersById: true,
};
