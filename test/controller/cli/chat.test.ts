// What `holdfast chat` refuses before a sandbox is made, and what it says. Conversations: test/conformance/chat.test.ts.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import { CliName } from "../../../protocol/locator.ts";
import { cli, DEAD_ENGINE, startCli } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { startModelServer } from "../../support/model/server.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { until } from "../../support/until.ts";

const KEY = "sk-chat-secret";

/** Enough of a build for process sandboxes to be offered; nothing of it can run. */
function builtHere(): Record<string, string> {
  const dist = temporaryDirectory();
  const bridge = join(dist, "bridge.cjs");
  writeFileSync(bridge, "");
  const clis = [{ cli: "opencode", version: "1", command: ["/nonexistent/opencode"], isChosen: true }];
  writeFileSync(
    join(dist, "bundle.json"),
    JSON.stringify({ node: process.execPath, bridge, piExtension: bridge, clis }),
  );
  return { HOLDFAST_DIST: dist, DOCKER_HOST: DEAD_ENGINE };
}

function keyFile(): string {
  const path = join(temporaryDirectory(), "key");
  writeFileSync(path, `${KEY}\n`, { mode: 0o600 });
  return path;
}

test("an address where no model is, and a key that it refuses, are said before anything is made", async () => {
  const store = temporaryDirectory();
  const env = builtHere();
  const nobody = await cli(["chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m1"], { store, env });
  expect(nobody).toMatchObject({ code: 1, stdout: "" });
  expect(nobody.stderr).toContain(
    "does not answer (ECONNREFUSED) [MODEL_UNREACHABLE] Check the base URL and the key.",
  );

  const model = await startModelServer({ expectedKey: "another" });
  onTestFinished(() => model.close());
  const words = ["chat", "--base-url", model.url, "--model", "m1", "--key-file", keyFile()];
  const refused = await cli(words, { store, env });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain("refuses the key (status 401)");
  expect(refused.stderr + refused.stdout).not.toContain(KEY);
  expect((await cli(["sandbox", "ls"], { store, env })).stdout).toBe("no sandboxes\n");
});

test("the key is in no argument list and no environment while the chat runs, and a look leaves nothing", async () => {
  const model = await startModelServer({ expectedKey: KEY });
  onTestFinished(() => model.close());
  const store = temporaryDirectory();
  const words = ["chat", "--base-url", model.url, "--model", "m1", "--key-file", keyFile()];
  const chat = startCli(words, { store, env: builtHere() });
  await until("the store", () => existsSync(join(store, "holdfast.db")));
  await chat.shows("isolates nothing");
  for (const name of ["cmdline", "environ"])
    expect(readFileSync(`/proc/${chat.child.pid}/${name}`, "utf8")).not.toContain(KEY);
  chat.child.stdin.end("\n   \n");
  const end = await chat.end;
  expect(end).toMatchObject({ code: 0, stdout: "" });
  expect(end.stderr).not.toContain(KEY);
  expect(end.stderr).not.toContain("kept");
  expect((await cli(["sandbox", "ls"], { store })).stdout).toBe("no sandboxes\n");
});

test("help names every CLI with what it needs of the model, and another word is refused with them", async () => {
  const store = temporaryDirectory();
  const help = await cli(["chat", "--help"], { store });
  expect(help.code).toBe(0);
  expect(help.stdout).toContain(`--cli ${CliName.options.join("|")}`);
  for (const line of [
    /^ +opencode, kilo, pi +OpenAI Chat Completions/m,
    /^ +codex +OpenAI Responses/m,
    /^ +claude +Anthropic Messages/m,
  ])
    expect(help.stdout).toMatch(line);
  const words = ["chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m1", "--cli", "aider"];
  const refused = await cli(words, { store, env: builtHere() });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(
    "--cli takes opencode, kilo, claude, codex, pi, not aider [USAGE] See --help.",
  );
  const budget = await cli([...words.slice(0, 5), "--budget", "100k"], { store, env: builtHere() });
  expect(budget.code).toBe(2);
  expect(budget.stderr).toContain('--budget takes a whole number of tokens, not "100k" [USAGE]');
});

test("the model is asked as the chosen CLI will ask it", async () => {
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer((call, reply) => {
    asked.push(call.headers);
    reply.writeHead(401).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const words = ["chat", "--base-url", `http://127.0.0.1:${port}/v1`, "--model", "m1"];
  for (const name of ["claude", "codex"]) {
    const all = [...words, "--key-file", keyFile(), "--cli", name];
    expect((await cli(all, { store: temporaryDirectory(), env: builtHere() })).stderr).toContain(
      "refuses the key",
    );
  }
  expect(asked.map((headers) => headers["x-api-key"])).toEqual([KEY, undefined]);
  expect(asked.map((headers) => headers.authorization)).toEqual([undefined, `Bearer ${KEY}`]);
});

test("a chat where nothing was built says what to run", async () => {
  const env = { HOLDFAST_DIST: temporaryDirectory(), DOCKER_HOST: DEAD_ENGINE };
  const words = ["chat", "--base-url", "http://127.0.0.1:1/v1", "--model", "m1"];
  const end = await cli(words, { store: temporaryDirectory(), env });
  expect(end.code).toBe(1);
  expect(end.stderr).toMatch(/^holdfast: .*`npm start`.* \[IMAGE_MISSING\] .+\n$/);
});

test("a kept member has its own model, and is lost with its sandbox", async () => {
  const store = temporaryDirectory();
  const owned = openStore({ directory: store, nowAt: () => 1, cliVersion: () => "1" });
  for (const at of [1, 2]) {
    owned.createSandbox({ id: `sb-${at}`, kind: "process", directory: join(store, "s", `sb-${at}`) });
    owned.createMember({ id: `m-${at}`, sandbox: `sb-${at}`, cli: "opencode", options: MEMBER });
  }
  owned.setWanted("sb-2", "removed");
  const env = builtHere();
  const chat = (...words: string[]) =>
    cli(["chat", "--base-url", "http://127.0.0.1:1/v1", ...words], { store, env });
  expect((await chat("--member", "m-1")).stderr).toContain("[STORE_OWNED]");
  owned.close();
  const other = await chat("--member", "m-1", "--model", "other");
  expect(other.code).toBe(2);
  expect(other.stderr).toContain("the model of m-1 is m1");
  expect((await chat("--member", "m-2")).stderr).toContain("its sandbox sb-2 was removed [CONTEXT_LOST]");
  expect((await chat("--member", "m-1", "--model", "m1")).stderr).toContain("[MODEL_UNREACHABLE]");
});
