/**
 * A member is forked by its real CLI in a process sandbox: nothing reaches the model for it, the new member has the whole
 * history with its first turn, and the parent's native files stay as they are, byte for byte.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { DRIVERS } from "../../bridge/drivers/registry.ts";
import type { ForkRow } from "../../controller/store/records.ts";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";

const STILL_MS = 1500;

let t: TestHost;
let sandbox: string;
let end: () => Promise<void> = async () => undefined;

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  sandbox = t.host.createSandbox({ kind: "process" }).id;
}, 60_000);
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

function memberOf(cli: CliName): string {
  const model = { ...MEMBER.model, protocol: PROTOCOL_OF_CLI[cli] };
  return t.host.createMember({ sandbox, cli, ...MEMBER, model }).id;
}

/** Digests of the member's native files; what only the running process needs is left out, as the fork does. */
function nativeFiles(member: string): Record<string, string> {
  const { cli } = t.host.member(member);
  const native = DRIVERS.get(cli)?.manifest.fork;
  const root = join(t.host.store.sandbox(sandbox)?.directory ?? "", "slots", member, native?.state ?? "");
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !path.includes(`${native?.state}/log/`) && !path.endsWith("-shm"))
      .map((path) => [path, createHash("sha256").update(readFileSync(path)).digest("hex")]),
  );
}

/** The same, once they hold still: Kilo writes to its database for a moment behind its turn's end. */
async function stillFiles(member: string): Promise<Record<string, string>> {
  let last = nativeFiles(member);
  let sinceMs = performance.now();
  return until("native files that hold still", () => {
    const now = nativeFiles(member);
    if (JSON.stringify(now) !== JSON.stringify(last)) sinceMs = performance.now();
    last = now;
    return performance.now() - sinceMs >= STILL_MS && now;
  });
}

/** What the last request held of the user's own words, one string a text. */
const lastTexts = () => userTexts(t.model.mainRequests().at(-1));

/** The fork of this key as it is recorded, or undefined. */
function forkNamed(key: string): ForkRow | undefined {
  const forks = t.host.membersOf(sandbox).map(({ id }) => t.host.store.forkOf(id));
  return forks.find((fork) => fork?.key === key) ?? undefined;
}

for (const [cli, { manifest }] of DRIVERS) {
  test(`${cli}: a fork has the whole history, and parent and fork go on apart`, async () => {
    const parent = memberOf(cli);
    await play(t, parent, "The code word is limpet.");
    await play(t, parent, "The second word is whelk.");
    const before = { files: await stillFiles(parent), member: t.host.member(parent) };
    const requests = t.model.requests().length;

    const fork = await t.host.forkMember({ from: parent, key: `key-${cli}` });
    const isAtOnce = manifest.fork?.when === "at_once";
    expect(fork).toMatchObject({ parent, state: isAtOnce ? "ready" : "prepared", awaits_turn: !isAtOnce });
    expect(t.model.requests()).toHaveLength(requests);
    expect(nativeFiles(parent)).toEqual(before.files);
    expect(t.host.member(parent)).toEqual(before.member);
    const child = fork.member;
    expect(t.host.member(child).settled_turns).toBe(2);
    expect(await t.host.nextContext(child)).toMatchObject({ status: "RESTORED", blocked: null });

    // The same key is the same member, and nothing is done again.
    const files = nativeFiles(child);
    expect(await t.host.forkMember({ from: parent, key: `key-${cli}` })).toEqual(fork);
    expect(nativeFiles(child)).toEqual(files);

    const first = await play(t, child, "The third word is of the fork alone: cockle.");
    expect(first.settlement).toMatchObject({ outcome: "completed", settled: true, context: "RESTORED" });
    expect(lastTexts()).toEqual([
      "The code word is limpet.",
      "The second word is whelk.",
      "The third word is of the fork alone: cockle.",
    ]);
    expect(t.host.store.forkOf(child)).toMatchObject({ state: "ready" });
    expect(nativeFiles(parent)).toEqual(before.files);
    const { locator } = t.host.member(child);
    expect(locator).toMatchObject({ settledTurns: 3 });
    expect(locator?.nativeId).not.toBe(before.member.locator?.nativeId);

    const [ofParent, ofChild] = await Promise.all([
      play(t, parent, "What is the code word? I am the parent."),
      play(t, child, "What is the code word? I am the fork."),
    ]);
    expect(ofParent.settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
      parts: ["The code word is limpet."],
    });
    expect(ofChild.settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
      parts: ["The code word is limpet."],
    });
    const texts = t.model.mainRequests().slice(-2).map(userTexts);
    const mine = texts.find((own) => own.at(-1)?.includes("the parent")) ?? [];
    const theirs = texts.find((own) => own.at(-1)?.includes("the fork.")) ?? [];
    expect(mine.join()).not.toContain("cockle");
    expect(mine).toHaveLength(3);
    expect(theirs.join()).not.toContain("the parent");
    expect(theirs).toHaveLength(4);
    expect(t.host.member(parent).locator?.nativeId).toBe(before.member.locator?.nativeId);

    // A fork of the fork. The servers copy every message each time; what the others do hangs on earlier records.
    if (manifest.gate === "canary-on-stream") return;
    const second = await t.host.forkMember({ from: child, key: `again-${cli}` });
    const grandchild = await play(t, second.member, "What is the second word?");
    expect(grandchild.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
    expect(lastTexts()).toEqual([...theirs, "What is the second word?"]);
  }, 120_000);
}

test("the controller dies while a fork is made; the same key makes it one member with one session", async () => {
  const parent = memberOf("codex");
  await play(t, parent, "The code word is limpet.");
  const before = { files: await stillFiles(parent), member: t.host.member(parent) };
  const lost = t.host.forkMember({ from: parent, key: "cut" }).catch((error: unknown) => error);
  const member = await until("the record", () => forkNamed("cut")?.member);
  await t.reopen();
  expect(await lost).toMatchObject({ code: expect.stringMatching(/^(LINK_CLOSED|STOPPED)$/) });
  expect(forkNamed("cut")).toMatchObject({ state: "prepared" });
  const fork = await t.host.forkMember({ from: parent, key: "cut" });
  expect(fork).toMatchObject({ member, state: "ready" });
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(settlement.session?.nativeId).toBe(fork.session?.nativeId);
  expect(lastTexts()).toEqual(["The code word is limpet.", "What is the code word?"]);
  expect(nativeFiles(parent)).toEqual(before.files);
  expect(t.host.member(parent)).toEqual(before.member);
}, 60_000);

test("a parent whose native state is gone is lost: the fork has failed, and stays so", async () => {
  const parent = memberOf("pi");
  await play(t, parent, "The code word is limpet.");
  for (const path of Object.keys(nativeFiles(parent))) rmSync(path);
  const lost = () => t.host.forkMember({ from: parent, key: "gone" });
  await expect(lost()).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  await expect(lost()).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  const member = forkNamed("gone")?.member ?? "";
  expect(() => t.host.submit(member, "hello")).toThrow(expect.objectContaining({ code: "FORK_FAILED" }));
}, 60_000);

test("Claude Code 2.1.220 forks with its first turn too", async () => {
  const older = await startTestHost({ claude: "2.1.220" });
  tellOnFailure(older);
  const box = older.host.createSandbox({ kind: "process" }).id;
  const model = { ...MEMBER.model, protocol: PROTOCOL_OF_CLI.claude };
  const parent = older.host.createMember({ sandbox: box, cli: "claude", ...MEMBER, model }).id;
  await play(older, parent, "The code word is limpet.");
  const { member, state } = await older.host.forkMember({ from: parent, key: "k" });
  expect(state).toBe("prepared");
  const { settlement } = await play(older, member, "What is the code word?");
  expect(settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(userTexts(older.model.mainRequests().at(-1))).toEqual([
    "The code word is limpet.",
    "What is the code word?",
  ]);
  expect(older.host.store.forkOf(member)).toMatchObject({ state: "ready" });
  expect(older.host.member(member).locator?.nativeId).not.toBe(older.host.member(parent).locator?.nativeId);
}, 60_000);
