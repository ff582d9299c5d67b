/** Codex 0.171.0: what a resume proves, and of what it is no proof. The record of a thread is broken in each way. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import type { Settlement } from "../../protocol/settlement.ts";
import { play } from "../support/turns.ts";
import { within } from "../support/until.ts";
import { CODEX_SUBJECT } from "./suite/codex-subject.ts";
import { openStage, type Stage, spoken } from "./suite/subject.ts";

const stage = openStage(CODEX_SUBJECT);
const codex = (
  JSON.parse(readFileSync(new URL("../../dist/bundle.json", import.meta.url), "utf8")) as {
    clis: Array<{ cli: string; command: string[] }>;
  }
).clis.find(({ cli }) => cli === "codex");

interface Told {
  own: Stage;
  member: string;
  /** Of the member's `$HOME`. */
  home: string;
  /** The file that codex loads the thread from. */
  record: string;
  next(text: string): Promise<Settlement>;
}

/** A member with three settled turns and no process. */
async function told(): Promise<Told> {
  const own = stage().apart();
  const { t, sandbox } = own;
  const member = own.fresh();
  for (const text of ["The code word is kelp.", "The second.", "The third."]) await play(t, member, text);
  await t.host.stopSandbox(sandbox);
  t.model.reset();
  const home = `${t.host.store.sandbox(sandbox)?.directory}/slots/${member}/home`;
  const sessions = `${home}/.codex/sessions`;
  const [record, ...more] = readdirSync(sessions, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".jsonl"),
  );
  if (record === undefined || more.length > 0) throw new Error("one record was expected");
  return {
    own,
    member,
    home,
    record: join(sessions, record),
    next: async (text) => (await play(t, member, text)).settlement,
  };
}

const linesOf = (record: string) => readFileSync(record, "utf8").trimEnd().split("\n");
const put = (record: string, lines: string[]) => writeFileSync(record, `${lines.join("\n")}\n`);

/** What it does to the lines of the record, and why the member is then lost. */
const BROKEN: Array<[what: string, change: (lines: string[]) => string[], reason: string]> = [
  [
    "most of it gone, though the CLI's own index still lists every turn",
    (lines) => lines.slice(0, 13),
    "the history lacks the last settled turn",
  ],
  [
    "a line in its middle cut and joined to the next, so that a message is gone",
    (lines) => {
      const at = lines.findIndex((line) => line.includes("Noted: kelp."));
      return [...lines.slice(0, at), `${lines[at]?.slice(0, 90)}${lines[at + 1]}`, ...lines.slice(at + 2)];
    },
    "the history lacks lines",
  ],
  [
    "its last line cut, which was the settled turn's end",
    (lines) => [...lines.slice(0, -1), lines.at(-1)?.slice(0, -40) ?? ""],
    "the history lacks the last settled turn",
  ],
  [
    "a block of zeros where its last lines were",
    (lines) => {
      const at = lines.findIndex((line) => line.includes("Noted: kelp."));
      return [...lines.slice(0, at), "\0".repeat(lines.slice(at).join("\n").length)];
    },
    "the history lacks the last settled turn",
  ],
  [
    "its first line cut",
    (lines) => [lines[0]?.slice(0, 90) ?? "", ...lines.slice(1)],
    "the CLI has no history",
  ],
  ["nothing in it", () => [], "the CLI has no history"],
];

test("P23, law 8: a record that is not whole is LOST in whatever way it was broken, and nothing is sent; whole again it is RESTORED", async () => {
  const { own, record, next } = await told();
  const whole = linesOf(record);
  for (const [what, change, reason] of BROKEN) {
    put(record, change(whole));
    const settlement = await next("What is the code word?");
    expect(settlement, what).toMatchObject({
      outcome: "refused",
      settled: false,
      context: "LOST",
      error: { code: "CONTEXT_LOST" },
    });
    expect(settlement.contextReason, what).toContain(reason);
  }
  expect(own.t.model.requests()).toEqual([]);
  put(record, whole);
  expect(await next("What is the code word?")).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    parts: ["The code word is kelp."],
  });
});

test("P23: a line cut behind the last settled turn loses nothing: the CLI writes on behind it, and every settled turn is sent", async () => {
  const { own, record, next } = await told();
  put(record, [...linesOf(record), '{"timestamp":"2026-11-30T00:00:00.000Z","ordinal":99,"type":"resp']);
  expect(await next("What is the code word?")).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    parts: ["The code word is kelp."],
  });
  await own.t.host.stopSandbox(own.sandbox);
  own.t.model.reset();
  expect(await next("And again?")).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(spoken(own, own.t.model.mainRequests()[0])).toEqual([
    "The code word is kelp.",
    "The second.",
    "The third.",
    "What is the code word?",
    "And again?",
  ]);
});

test("P21: a thread of another working directory is LOST with the reason, and never continued elsewhere", async () => {
  const { own, member, next } = await told();
  const { t } = own;
  const { locator } = t.host.member(member);
  const database = new DatabaseSync(`${t.directory}/holdfast.db`, { timeout: 5000 });
  database
    .prepare("UPDATE members SET locator = ? WHERE id = ?")
    .run(JSON.stringify({ ...locator, directory: `${own.workspace}-linked` }), member);
  database.close();
  const settlement = await next("Where are you?");
  expect(settlement).toMatchObject({ outcome: "refused", context: "LOST" });
  expect(settlement.contextReason).toContain("another working directory");
  expect(t.model.requests()).toEqual([]);
});

test("P22, law 8: a thread that another process has open is an error and not LOST, the locator stays, and the next try is RESTORED", async () => {
  const { own, member, home, next } = await told();
  const { t, workspace } = own;
  const { locator } = t.host.member(member);
  const other = await holdThread(home, workspace, locator?.nativeId ?? "");
  const settlement = await next("Are you free?");
  expect(settlement).toMatchObject({
    outcome: "refused",
    context: null,
    error: { code: "RESUME_FAILED", message: expect.stringContaining("active writer") },
  });
  expect(t.model.requests()).toEqual([]);
  expect(t.host.member(member).locator).toEqual(locator);
  other.kill("SIGKILL");
  await within("the other's end", new Promise((resolve) => other.once("exit", resolve)), 5000);
  expect(await next("And now?")).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(t.host.member(member).locator?.nativeId).toBe(locator?.nativeId);
});

/** A process of nobody's slot that has the thread open. */
async function holdThread(home: string, cwd: string, threadId: string): Promise<ChildProcess> {
  const [file = "", ...args] = codex?.command ?? [];
  const settings = ["features.plugins=false", "features.apps=false"].concat(
    ["name", "base_url"].map((key) => `model_providers.holdfast.${key}="http://127.0.0.1:9"`),
  );
  const child = spawn(file, [...args, "app-server", ...settings.flatMap((each) => ["-c", each])], {
    cwd,
    env: { PATH: "/usr/bin:/bin", HOME: home },
    stdio: ["pipe", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const answers = new Map<number, (value: { error?: unknown }) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line) as { id?: number; method?: string; error?: unknown };
    if (message.method === undefined && message.id !== undefined) answers.get(message.id)?.(message);
  });
  const ask = (id: number, method: string, params: unknown) =>
    within(
      method,
      new Promise<{ error?: unknown }>((resolve) => {
        answers.set(id, resolve);
        child.stdin.write(`${JSON.stringify({ id, method, params })}\n`);
      }),
      15_000,
    );
  await ask(1, "initialize", {
    clientInfo: { name: "another", version: "1" },
    capabilities: { experimentalApi: true },
  });
  child.stdin.write(`${JSON.stringify({ method: "initialized" })}\n`);
  const opened = await ask(2, "thread/resume", { threadId, excludeTurns: true });
  if (opened.error !== undefined) throw new Error(`not held: ${JSON.stringify(opened.error)}`);
  return child;
}
