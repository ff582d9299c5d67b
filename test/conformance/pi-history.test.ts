/** What Pi 1.6.0 makes of its session files: what was lost is LOST, what a crash left is carried on, and nothing else is. */
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { Locator } from "../../protocol/locator.ts";
import { follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { PI_SUBJECT } from "./suite/pi-subject.ts";
import { killCli } from "./suite/processes.ts";
import { openStage, type Stage, settled, spoken } from "./suite/subject.ts";

const stage = openStage(PI_SUBJECT);
const BEFORE = "Say something before the test begins.";

/** The member's only session file. */
function fileOf({ directory }: Stage, member: string): string {
  const root = `${directory}/slots/${member}/home/.pi/agent/sessions`;
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const [file] = files;
  if (file === undefined || files.length > 1) throw new Error(`${files.length} session files`);
  return `${file.parentPath}/${file.name}`;
}

function change(file: string, make: (lines: string[]) => string[]): void {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  writeFileSync(file, make(lines).join("\n"));
}

/** The line of the last answer, and those before and behind it. */
const lastAnswer = (lines: string[]) => lines.findLastIndex((line) => line.includes('"role":"assistant"'));
const half = (line: string | undefined) => (line ?? "").slice(0, (line ?? "").length / 2);

function putLocator({ t }: Stage, member: string, locator: Locator): void {
  const database = new DatabaseSync(`${t.directory}/holdfast.db`, { timeout: 5000 });
  database.prepare("UPDATE members SET locator = ? WHERE id = ?").run(JSON.stringify(locator), member);
  database.close();
}

/** Ways to damage a history of two turns, each with why it is lost; null: it is not. */
const DAMAGES: Record<string, { make(lines: string[]): string[]; lost: string | null }> = {
  "its last line cut": {
    make: (lines) => [...lines.slice(0, lastAnswer(lines)), half(lines[lastAnswer(lines)])],
    lost: "lacks the last settled turn",
  },
  "a block of zeros where its last answer was": {
    make: (lines) => [
      ...lines.slice(0, lastAnswer(lines)),
      "\0".repeat(lines.slice(lastAnswer(lines)).join("\n").length),
    ],
    lost: "lacks the last settled turn",
  },
  "a cut line joined with the next record": {
    make(lines) {
      const first = lines.findIndex((line) => line.includes('"role":"assistant"'));
      return [
        ...lines.slice(0, first),
        `${half(lines[first])}${lines[first + 1]}`,
        ...lines.slice(first + 2),
      ];
    },
    lost: "lacks its beginning",
  },
  "only its first line left": { make: (lines) => lines.slice(0, 1), lost: "is blank" },
  "nothing left": { make: () => [], lost: "no session with the saved id" },
  "its first record gone": {
    make: (lines) => [...lines.slice(0, 1), ...lines.slice(2)],
    lost: "lacks its beginning",
  },
  "gone back to before the last turn": {
    make(lines) {
      const user = lines.find((line) => line.includes('"role":"user"')) ?? "";
      const { id } = JSON.parse(user) as { id: string };
      const record = { type: "label", id: "ffffffff", parentId: id, timestamp: new Date().toISOString() };
      return [...lines, `${JSON.stringify({ ...record, targetId: id, label: "here" })}\n`];
    },
    lost: "on a branch that was left",
  },
  "another folder in its head": {
    make: ([head = "", ...rest]) => [JSON.stringify({ ...JSON.parse(head), cwd: "/" }), ...rest, ""],
    lost: "another working directory",
  },
  "a half-written record behind the last turn": {
    make: (lines) => [...lines, half(lines[lastAnswer(lines)])],
    lost: null,
  },
};

test("P23, law 8: a damaged history is LOST where the last settled turn or what was before it is missing, and never crashes anything", async () => {
  const own = stage().apart();
  const { t, fresh, sandbox } = own;
  const members = new Map<string, string>();
  for (const what of Object.keys(DAMAGES)) {
    const member = await settled(own, fresh());
    await play(t, member, "The code word is kelp.");
    members.set(what, member);
  }
  await t.host.stopSandbox(sandbox);
  t.model.reset();
  for (const [what, { make, lost }] of Object.entries(DAMAGES)) {
    const member = members.get(what) ?? "";
    const { locator } = t.host.member(member);
    change(fileOf(own, member), make);
    const { settlement } = await play(t, member, "What is the code word?");
    if (lost === null) {
      expect(settlement, what).toMatchObject({ context: "RESTORED", parts: ["The code word is kelp."] });
      continue;
    }
    expect(settlement, what).toMatchObject({
      outcome: "refused",
      context: "LOST",
      contextReason: expect.stringContaining(lost),
      error: { code: "CONTEXT_LOST" },
    });
    expect(t.host.member(member).locator, what).toEqual(locator);
  }
  const asked = t.model.mainRequests();
  expect(asked).toHaveLength(1);
  expect(spoken(own, asked[0])).toEqual([BEFORE, "The code word is kelp.", "What is the code word?"]);
}, 120_000);

test("B7: an id that pi resolves to another session, or takes for a file, is LOST, and no new session is made under it", async () => {
  const own = stage().apart();
  const { t, fresh, sandbox, workspace } = own;
  const member = await settled(own, fresh());
  const { locator } = t.host.member(member);
  if (locator === null) throw new Error("no locator");
  await t.host.stopSandbox(sandbox);
  const none = `${workspace}/none.jsonl`;
  for (const [nativeId, reason] of [
    // Pi takes the beginning of an id for the id.
    [locator.nativeId.slice(0, 12), "resumed another session"],
    [none, "none of pi's"],
    ["--no-session", "none of pi's"],
  ] as const) {
    putLocator(own, member, { ...locator, nativeId });
    const { settlement } = await play(t, member, "Are you the one?");
    expect(settlement).toMatchObject({ outcome: "refused", context: "LOST" });
    expect(settlement.contextReason).toContain(reason);
  }
  expect(existsSync(none)).toBe(false);
  expect(t.model.requests()).toEqual([]);
  putLocator(own, member, locator);
  expect((await play(t, member, "Found?")).settlement).toMatchObject({ context: "RESTORED" });
  expect(fileOf(own, member)).toContain(locator.nativeId);
});

test("P21: a workspace that is reached by another way is LOST with the reason, and found again by the first", async () => {
  const own = stage().apart();
  const { t, fresh, sandbox, workspace } = own;
  const member = await settled(own, fresh());
  expect(t.host.member(member).locator?.directory).toBe(workspace);
  await t.host.stopSandbox(sandbox);
  renameSync(workspace, `${workspace}-moved`);
  symlinkSync(`${workspace}-moved`, workspace);
  const { settlement } = await play(t, member, "Where are we?");
  expect(settlement).toMatchObject({ outcome: "refused", context: "LOST" });
  expect(settlement.contextReason).toContain("another working directory");
  await t.host.stopSandbox(sandbox);
  expect(t.model.requests()).toEqual([]);
  renameSync(workspace, `${workspace}-link`);
  renameSync(`${workspace}-moved`, workspace);
  const found = await play(t, member, "And now?");
  expect(found.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
});

test("facts 3.5: after a kill in mid-answer every settled text is there once, and nothing of the half one", async () => {
  const own = stage().apart();
  const { t, fresh, sandbox } = own;
  const member = await settled(own, fresh());
  t.model.script("Talk on", [{ kind: "neverEnd", text: "talking " }]);
  const turn = follow(t.host.submit(member, "Talk on."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  await killCli(sandbox, member, PI_SUBJECT.processText);
  expect(await turn.end()).toMatchObject({
    outcome: "failed",
    settled: false,
    error: { code: "CLI_EXITED" },
  });
  t.model.reset();
  expect((await play(t, member, "Go on.")).settlement).toMatchObject({ context: "RESTORED" });
  const [request] = t.model.mainRequests();
  expect(spoken(own, request)).toEqual([BEFORE, "Talk on.", "Go on."]);
  expect(request?.bodyText).not.toContain("talking");
});

test("law 2, P23: half a record at the end costs nothing behind it: pi ends its line, and what is stored is only added to", async () => {
  const own = stage().apart();
  const { t, fresh, sandbox } = own;
  const member = await settled(own, fresh());
  const file = fileOf(own, member);
  const before = readFileSync(file, "utf8");
  appendFileSync(file, '{"type":"message","id":"');
  await t.host.stopSandbox(sandbox);
  expect((await play(t, member, "Go on.")).settlement).toMatchObject({ context: "RESTORED" });
  expect(readFileSync(file, "utf8").startsWith(before)).toBe(true);
  await t.host.stopSandbox(sandbox);
  t.model.reset();
  expect((await play(t, member, "Still there?")).settlement).toMatchObject({ context: "RESTORED" });
  expect(spoken(own, t.model.mainRequests()[0])).toEqual([BEFORE, "Go on.", "Still there?"]);
});
