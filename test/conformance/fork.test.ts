/**
 * A member is forked by its real CLI in a process sandbox: nothing reaches the model for it, the new member has the whole
 * history with its first turn, and the parent's native files stay as they are, byte for byte.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { DRIVERS } from "../../bridge/drivers/registry.ts";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";

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

/** What the last request held of the user's own words, one string a text. */
const lastTexts = () => userTexts(t.model.mainRequests().at(-1));

for (const [cli, { manifest }] of DRIVERS) {
  test(`${cli}: a fork has the whole history, and parent and fork go on apart`, async () => {
    const parent = memberOf(cli);
    await play(t, parent, "The code word is limpet.");
    await play(t, parent, "The second word is whelk.");
    const before = { files: nativeFiles(parent), member: t.host.member(parent) };
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
