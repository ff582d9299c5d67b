// `holdfast chat --cli` works alike over every CLI: a conversation over a pipe, kept and taken up by another chat, and what
// the agent asks is asked here.
import { expect, onTestFinished, test } from "vitest";
import type { CliName } from "../../protocol/locator.ts";
import { type CliEnd, cli, startCli } from "../support/cli.ts";
import { processesOf } from "../support/left-behind.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const TURNS_MS = 90_000;

/** How each CLI's model calls the shell. */
const SHELLS: Readonly<Record<CliName, { name: string; key: string }>> = {
  opencode: { name: "bash", key: "command" },
  kilo: { name: "bash", key: "command" },
  claude: { name: "Bash", key: "command" },
  codex: { name: "exec_command", key: "cmd" },
  pi: { name: "bash", key: "command" },
};

interface Place {
  store: string;
  model: ModelServer;
  chat(words: readonly string[], input: string): Promise<CliEnd>;
}

async function place(): Promise<Place> {
  const model = await startModelServer({ recall: true });
  onTestFinished(() => model.close());
  const store = temporaryDirectory();
  onTestFinished(async () => {
    const listed = await cli(["sandbox", "ls", "--json"], { store });
    const rows = listed.stdout === "" ? [] : (JSON.parse(listed.stdout) as Array<{ id: string }>);
    for (const { id } of rows) await cli(["sandbox", "rm", id], { store, limitMs: 30_000 });
    await until("no process", () => processesOf(store).length === 0);
  });
  return {
    store,
    model,
    chat: (words, input) =>
      within(
        "the chat's end",
        startCli(["chat", "--base-url", model.url, ...words], { store, input }).end,
        TURNS_MS,
      ),
  };
}

test.for(Object.keys(SHELLS) as CliName[])("%s: a conversation, kept and taken up again", async (name) => {
  const at = await place();
  const fresh = ["--cli", name, "--model", "m1", "--sandbox", "process", "--permissions", "ask"];
  const first = await at.chat(fresh, "The code word is heron.\nWhat is the code word?\n");
  expect(first.code, first.stderr).toBe(0);
  expect(first.stdout).toBe("Noted: heron.\nThe code word is heron.\n");
  expect(first.stderr).toContain("[NEW: ");
  expect(first.stderr).toContain("[LIVE: ");

  const { name: tool, key } = SHELLS[name];
  const call = { name: tool, arguments: { [key]: "echo a-$((1+1))-run", description: "a test's command" } };
  at.model.script("Run it", [{ kind: "reply", toolCalls: [call] }, "It ran."]);
  const member = first.stderr.match(/chat --member (\S+)/)?.[1] ?? "none";
  const again = await at.chat(["--member", member], "Run it, please.\ny\nWhat is the code word?\n");
  expect(again.code, again.stderr).toBe(0);
  expect(again.stdout).toBe("It ran.\nThe code word is heron.\n");
  expect(again.stderr).toContain("[RESTORED: ");
  expect(again.stderr).toContain(`may it use ${tool}? `);
  expect(again.stderr).toContain("[permission once: confirmed]");
  expect(at.model.mainRequests().at(-1)?.bodyText).toContain("a-2-run");
});
