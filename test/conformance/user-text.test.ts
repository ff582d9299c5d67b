/** That the real Claude Code, in both pinned versions, takes for a command what the host refuses, and passes on the rest. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { textProblem } from "../../protocol/user-text.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";
import { KNOWN_COMMANDS, NO_COMMANDS, UNKNOWN_COMMANDS } from "../support/user-texts.ts";

const bundle = JSON.parse(readFileSync(new URL("../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; version: string; command: string[] }>;
};
const VERSIONS = bundle.clis.filter(({ cli }) => cli === "claude");
const TURN_MS = 20_000;

/** What reached the model of a text: that very text, another one, or no request at all. */
type Fate = "passed" | "replaced" | "swallowed";

async function claude(command: readonly string[], model: ModelServer) {
  const home = temporaryDirectory();
  const cwd = join(home, "work");
  mkdirSync(cwd);
  const [program = "", ...args] = command;
  const stream = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
  const child = spawn(program, [...args, "-p", ...stream, "--model", "m1"], {
    cwd,
    stdio: ["pipe", "pipe", "ignore"],
    env: {
      PATH: process.env.PATH,
      HOLDFAST_TEST_RUN: process.env.HOLDFAST_TEST_RUN,
      HOME: home,
      ANTHROPIC_API_KEY: "placeholder",
      ANTHROPIC_BASE_URL: new URL(model.url).origin,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
      DISABLE_AUTOUPDATER: "1",
    },
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  onTestFinished(async () => {
    child.stdin.end();
    await exited;
  });
  let results = 0;
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    results += lines.filter((line) => (JSON.parse(line) as { type: string }).type === "result").length;
  });

  return async (text: string): Promise<Fate> => {
    const [before, wanted] = [model.mainRequests().length, results + 1];
    const message = { role: "user", content: [{ type: "text", text }] };
    child.stdin.write(
      `${JSON.stringify({ type: "user", message, parent_tool_use_id: null, session_id: "" })}\n`,
    );
    await until(`the result of ${JSON.stringify(text)}`, () => results === wanted, TURN_MS);
    const requests = model.mainRequests().slice(before);
    if (requests.length === 0) return "swallowed";
    const user = requests[0]?.request?.rows.findLast(({ role }) => role === "user");
    return user?.texts.filter((part) => part === text).length === 1 ? "passed" : "replaced";
  };
}

async function fates(command: readonly string[], texts: readonly string[]): Promise<Record<string, Fate>> {
  const model = await startModelServer();
  onTestFinished(() => model.close());
  const say = await claude(command, model);
  const found: Record<string, Fate> = {};
  for (const text of texts) found[text] = await say(text);
  return found;
}

const all = (texts: readonly string[], fate: Fate) => Object.fromEntries(texts.map((text) => [text, fate]));

test("both pinned versions of Claude Code are looked at", () => {
  expect(VERSIONS.map(({ version }) => version).toSorted()).toEqual(["2.1.220", "2.1.332"]);
});

for (const { version, command } of VERSIONS) {
  test(`Claude Code ${version}: what the host lets through reaches the model byte for byte`, async () => {
    for (const text of NO_COMMANDS) expect(textProblem("claude", text), text).toBeNull();
    expect(await fates(command, NO_COMMANDS)).toEqual(all(NO_COMMANDS, "passed"));
  });

  test(`Claude Code ${version}: what the host refuses never reaches the model as it is, or only by luck`, async () => {
    for (const text of [...KNOWN_COMMANDS, ...UNKNOWN_COMMANDS])
      expect(textProblem("claude", text), text).toMatchObject({ code: "MESSAGE_IS_COMMAND" });
    // A later version passes on what it does not know; which words those are is nothing that a host could know.
    const unknown = version === "2.1.220" ? "swallowed" : "passed";
    expect(await fates(command, [...UNKNOWN_COMMANDS, ...KNOWN_COMMANDS])).toEqual({
      ...all(UNKNOWN_COMMANDS, unknown),
      "/cost x": "swallowed",
      "/init": "replaced",
    });
  });
}
