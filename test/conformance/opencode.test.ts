/** OpenCode 1.18.33 under the suite of the driver contract. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { DRIVERS } from "../../bridge/drivers/registry.ts";
import { MEMBER } from "../support/host.ts";
import { driverSuite } from "./driver-suite.ts";
import { CUTTER } from "./stream-cutter.ts";
import { environmentOf, listeningPort } from "./suite/processes.ts";

const driver = DRIVERS.get("opencode");
if (driver === undefined) throw new Error("there is no driver for opencode");

const bundle = JSON.parse(readFileSync(new URL("../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; binary: string }>;
};
const binary = bundle.clis.find(({ cli }) => cli === "opencode")?.binary ?? "";
const cutter = fileURLToPath(new URL(`${CUTTER}.ts`, import.meta.url));

driverSuite({
  manifest: driver.manifest,
  member: MEMBER,
  processText: "opencode serve",
  tools: {
    shell: (command) => ({ name: "bash", arguments: { command, description: "a test's command" } }),
    task: (prompt) => ({
      name: "task",
      arguments: { description: "a test's task", prompt, subagent_type: "general" },
    }),
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
  rejected: { modelCalls: 1 },
  cutter: [process.execPath, cutter, binary],
  async dispose(pid, workspace) {
    const key = Buffer.from(`opencode:${environmentOf(pid, "OPENCODE_SERVER_PASSWORD")}`).toString("base64");
    const url = `http://127.0.0.1:${listeningPort(pid)}/instance/dispose?directory=${encodeURIComponent(workspace)}`;
    const answer = await fetch(url, { method: "POST", headers: { authorization: `Basic ${key}` } });
    if (!answer.ok) throw new Error(`the instance was not disposed of: ${answer.status}`);
  },
});
