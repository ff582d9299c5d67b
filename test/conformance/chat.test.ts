// `holdfast chat` as a user has it: on a terminal (by script, of util-linux) and over pipes, with OpenCode in a process
// sandbox and the loopback model.
import { expect, onTestFinished, test } from "vitest";
import { type Cli, type CliEnd, cli, startCli, startOnTerminal } from "../support/cli.ts";
import { processesOf } from "../support/left-behind.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { userTexts } from "../support/turns.ts";
import { until, within } from "../support/until.ts";

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const TURN_MS = 60_000;
const paste = (text: string) => `\u001b[200~${text}\u001b[201~`;

interface Place {
  store: string;
  model: ModelServer;
  words: string[];
}

async function place(): Promise<Place> {
  const model = await startModelServer({ recall: true });
  onTestFinished(() => model.close());
  const store = temporaryDirectory();
  // Runs first: the sandbox is removed before its folder.
  onTestFinished(async () => {
    // A chat that a failed test left has the store still.
    for (const line of processesOf(store)) if (line.includes("cli/main.ts")) kill(line);
    const listed = await cli(["sandbox", "ls", "--json"], { store });
    const ids = listed.stdout === "" ? [] : sandboxes(listed);
    for (const id of ids) await cli(["sandbox", "rm", id], { store, limitMs: 30_000 });
    expect(processesOf(store)).toEqual([]);
  });
  return { store, model, words: ["chat", "--base-url", model.url] };
}

function sandboxes({ stdout }: CliEnd): string[] {
  return (JSON.parse(stdout) as Array<{ id: string }>).map(({ id }) => id);
}

function kill(line: string): void {
  process.kill(Number(line.split(" ")[0]), "SIGKILL");
}

const fresh = ({ words }: Place) => [...words, "--model", "m1", "--sandbox", "process"];

function memberIn(text: string): string {
  return text.match(/chat --member (\S+)/)?.[1] ?? "none";
}

async function ended(chat: Cli): Promise<CliEnd> {
  return await within("the chat's end", chat.end, TURN_MS).catch((cause: unknown) => {
    throw new Error(`the chat did not end; it showed:\n${chat.all()}`, { cause });
  });
}

/** Types a line and waits for what is shown behind it. */
async function say(chat: Cli, line: string, answer: string | RegExp): Promise<void> {
  const from = chat.all().length;
  chat.type(line);
  await chat.shows(answer, from);
  await chat.shows("· completed, settled", from);
}

function prompts({ model }: Place): string[] {
  return userTexts(model.mainRequests().at(-1));
}

test("on a terminal it streams, shows status, reason and settlement, aborts a turn with Ctrl-C, and goes on", async () => {
  const at = await place();
  at.model.script("Tell me a long story", [{ kind: "neverEnd", text: "once upon a time ", everyMs: 50 }]);
  const chat = startOnTerminal(fresh(at), at);
  await chat.shows("> ");

  await say(chat, "\r   \rThe code word is heron.\r", "Noted: heron.");
  expect(chat.all()).toContain("[NEW: no native turn has settled]");
  expect(chat.all()).toMatch(/\[NEW · completed, settled · by \S+ · \d+\.\d s\]/);
  expect(at.model.mainRequests()).toHaveLength(1);

  const from = chat.all().length;
  chat.type("Tell me a long story\r");
  await chat.shows(/once upon a time once upon a time/, from);
  chat.type(CTRL_C);
  await chat.shows("aborting the turn", from);
  await chat.shows(/\[LIVE · aborted, settled/, from);

  await say(chat, "What is the code word?\r", "The code word is heron.");
  await chat.shows("> ", chat.all().lastIndexOf("settled"));
  chat.type(CTRL_C);
  const { code, stdout } = await ended(chat);
  expect(code).toBe(0);
  expect(stdout).toMatch(/kept; to go on: holdfast chat --member m-\w+ --base-url URL/);
  // Nothing goes on running once the user has left.
  await until("no process", () => processesOf(at.store).length === 0);
});

test("a paste of several lines, emoji, combining marks and separators arrive at the model as they are", async () => {
  const at = await place();
  const chat = startOnTerminal(fresh(at), at);
  await chat.shows("> ");
  const typed = "Größe 👩‍👩‍👧 e\u0301 שלום \u2028 日本 \u200d";
  await say(chat, `${typed}\r`, "All right.");
  expect(prompts(at)).toEqual([typed]);
  const text = "/def f():\n\treturn 1\n\n  # end 🦑";
  await say(chat, `look: ${paste(text.replaceAll("\n", "\r"))} done\r`, "All right.");
  expect(prompts(at)).toEqual([typed, `look: ${text} done`]);
  chat.type(CTRL_D);
  expect((await ended(chat)).code).toBe(0);
});

test("Ctrl-D during a turn leaves when the turn has ended; Ctrl-C twice leaves at once, and the turn is shown later", async () => {
  const at = await place();
  at.model.script("slowly", [{ kind: "reply", text: ["one ", "two ", "three."], betweenChunksMs: 700 }]);
  const first = startOnTerminal(fresh(at), at);
  await first.shows("> ");
  first.type("Count slowly\r");
  await first.shows("one ");
  first.type(CTRL_D);
  const { code, stdout } = await ended(first);
  expect(code).toBe(0);
  expect(stdout).toContain("three.");
  const member = memberIn(stdout);

  at.model.script("stubborn", [{ kind: "reply", text: ["a ", "b ", "c ", "d."], betweenChunksMs: 1500 }]);
  const second = startOnTerminal([...at.words, "--member", member], at);
  await second.shows("> ");
  second.type("Be stubborn\r");
  await second.shows("[RESTORED: ");
  await second.shows(/\ba /, second.all().indexOf("[RESTORED: "));
  second.type(CTRL_C + CTRL_C);
  const left = await ended(second);
  expect(left.code).toBe(0);
  expect(left.stdout).toContain("to go on: ");

  const third = startCli([...at.words, "--member", member], { ...at, input: "Hello\n" });
  const end = await ended(third);
  expect(end.stdout).toContain("All right.");
});

test("each line of a pipe is answered: answers on stdout, all else on stderr, no escapes; the conversation is kept", async () => {
  const at = await place();
  const run = startCli(fresh(at), { ...at, input: "The code word is heron.\n\nWhat is the code word?" });
  const { code, stdout, stderr } = await ended(run);
  expect(code, stderr).toBe(0);
  expect(stdout).toBe("Noted: heron.\nThe code word is heron.\n");
  expect(stderr).toContain("[NEW: ");
  expect(stderr).toContain("[LIVE: ");
  expect(stdout + stderr).not.toContain("\u001b");

  const again = startCli([...at.words, "--member", memberIn(stderr), "--json"], {
    ...at,
    input: "What is the code word?\n",
  });
  const json = await ended(again);
  expect(json.code).toBe(0);
  const updates = json.stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { kind: string; settlement?: { context: string; parts: string[] } });
  expect(updates.at(-1)).toMatchObject({
    kind: "settled",
    settlement: { context: "RESTORED", outcome: "completed", parts: ["The code word is heron."] },
  });
  for (const line of json.stderr.trimEnd().split("\n")) JSON.parse(line);
});

test("what a model sends can't reach the terminal as control, as text or as JSON", async () => {
  const at = await place();
  const hostile = "safe\u001b]0;owned\u0007\u001b[2J\u009b31m\rend";
  at.model.setDefault([{ kind: "reply", text: [hostile] }]);
  const run = startCli(fresh(at), { ...at, input: "Hi\n" });
  const plain = await ended(run);
  expect(plain.stdout).toBe("safe]0;owned[2J31mend\n");
  const again = startCli([...at.words, "--member", memberIn(plain.stderr), "--json"], {
    ...at,
    input: "Hi\n",
  });
  const json = await ended(again);
  expect(json.stdout).toContain("\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\rend");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(json.stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
});

test("a turn that fails makes the exit code of a pipe 1, and the lines behind it are answered all the same", async () => {
  const at = await place();
  at.model.script("fail", [{ kind: "status", status: 400, body: { error: { message: "no \u001b[2Jway" } } }]);
  const { code, stdout, stderr } = await ended(startCli(fresh(at), { ...at, input: "Please fail\nHello\n" }));
  expect(code).toBe(1);
  expect(stdout).toBe("All right.\n");
  expect(stderr).toMatch(/\[NEW · failed, settled .*NATIVE_FAILED/);
  expect(stderr).not.toContain("\u001b");
});

test("SIGINT without a terminal aborts the turn, and at rest leaves", async () => {
  const at = await place();
  at.model.script("story", [{ kind: "neverEnd", text: "word ", everyMs: 50 }]);
  const chat = startCli(fresh(at), at);
  chat.type("A story\n");
  await chat.shows("word word");
  chat.child.kill("SIGINT");
  await chat.shows(/\[NEW · aborted/);
  await new Promise((resolve) => setTimeout(resolve, 350));
  chat.child.kill("SIGINT");
  const { code, stderr } = await ended(chat);
  expect(code).toBe(1);
  expect(stderr).toContain("kept; to go on");
  const listed = await cli(["sandbox", "ls"], at);
  expect(listed.stdout).toMatch(/ stopped +m-/);
});

test("E2, law 9: what the agent asks is asked here, a permission and a question, and the answers reach it", async () => {
  const at = await place();
  const tool = (name: string, args: Record<string, unknown>) => ({
    kind: "reply" as const,
    toolCalls: [{ name, arguments: args }],
  });
  const options = [
    { label: "red", description: "warm" },
    { label: "blue", description: "" },
  ];
  const questions = [{ question: "Pick a colour", header: "C", options }];
  at.model.script("Run it", [tool("bash", { command: "echo a-run", description: "x" }), "It ran."]);
  at.model.script("Ask me", [tool("question", { questions }), "Thank you."]);
  const input = "Run it, please.\ny\nAsk me something.\n2\n";
  const run = startCli([...fresh(at), "--permissions", "ask"], { ...at, input });
  const { code, stdout, stderr } = await ended(run);
  expect(code, stderr).toBe(0);
  expect(stdout).toBe("It ran.\nThank you.\n");
  expect(stderr).toContain("may it use bash? echo a-run");
  expect(stderr).toContain("[permission once: confirmed]");
  expect(stderr).toMatch(/Pick a colour\n {2}1 {2}red {2}\(warm\)\n {2}2 {2}blue/);
  const history = at.model.mainRequests().at(-1)?.bodyText ?? "";
  expect(history).toContain("a-run");
  expect(history).toContain('\\"Pick a colour\\"=\\"blue\\"');
});
