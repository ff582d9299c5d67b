/** A CLI that names another session than the saved one: the real Claude Code with its real history, renamed on its way out. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { startTestHost } from "../support/host.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";
import { CLAUDE_MEMBER, claudeCommand } from "./suite/claude-subject.ts";
import { slotIsEmpty } from "./suite/processes.ts";

const RENAMER = new URL("session-renamer.ts", import.meta.url).pathname;
/** On no disk anywhere. */
const OTHER = "99999999-2222-4333-8444-555555555555";

/** A member with one settled turn and no resident process. */
async function staged() {
  const rule = join(temporaryDirectory(), "rule");
  const t = await startTestHost({
    commands: { claude: [process.execPath, RENAMER, rule, ...claudeCommand("2.1.332")] },
  });
  tellOnFailure(t);
  const sandbox = t.host.createSandbox({ kind: "process" }).id;
  const member = t.host.createMember({ sandbox, cli: "claude", ...CLAUDE_MEMBER }).id;
  await play(t, member, "The code word is kelp.");
  await t.host.stopSandbox(sandbox);
  return {
    t,
    sandbox,
    member,
    names: (text: string) => writeFileSync(rule, text),
    /** As it stands in the store's file. */
    savedBytes(): string {
      const database = new DatabaseSync(`${t.directory}/holdfast.db`, { readOnly: true, timeout: 5000 });
      const row = database.prepare("SELECT locator FROM members WHERE id = ?").get(member);
      database.close();
      return String(row?.locator);
    },
  };
}

for (const [how, fails] of [
  ["answered", false],
  ["refused by the provider", true],
] as const) {
  test(`P20, B2: a turn that is ${how} and names another session fails; the locator stays byte for byte, and is what the next resume uses`, async () => {
    const { t, sandbox, member, names, savedBytes } = await staged();
    const saved = savedBytes();
    const { locator } = t.host.member(member);
    names(`init ${OTHER}`);
    if (fails)
      t.model.script("Who are you", [{ kind: "status", status: 400, body: { error: { message: "no" } } }]);
    const { settlement } = await play(t, member, "Who are you?");
    expect(settlement).toMatchObject({
      outcome: "failed",
      context: "RESTORED",
      error: { code: "IDENTITY_CHANGED" },
      keepsProcess: false,
    });
    expect(t.model.mainRequests().length).toBeGreaterThan(0);
    expect(savedBytes()).toBe(saved);
    expect(t.host.member(member).settled_turns).toBe(1);
    await slotIsEmpty(sandbox, member);

    names("");
    t.model.reset();
    const next = await play(t, member, "What is the code word?");
    expect(next.settlement).toMatchObject({
      outcome: "completed",
      context: "RESTORED",
      session: { nativeId: locator?.nativeId },
      parts: ["The code word is kelp."],
    });
    expect(userTexts(t.model.mainRequests()[0])[0]?.trim()).toBe("The code word is kelp.");
    expect(t.host.member(member).locator).toMatchObject({ nativeId: locator?.nativeId, settledTurns: 2 });
  });
}

test("law 7, B8: a first turn that names another member's session fails, and takes it from nobody", async () => {
  const { t, sandbox, member, names, savedBytes } = await staged();
  const { locator } = t.host.member(member);
  const saved = savedBytes();
  const second = t.host.createMember({ sandbox, cli: "claude", ...CLAUDE_MEMBER }).id;
  names(`init ${locator?.nativeId}`);
  const { settlement } = await play(t, second, "The code word is whelk.");
  expect(settlement).toMatchObject({
    outcome: "failed",
    keepsProcess: false,
    error: { code: "IDENTITY_CHANGED" },
  });
  expect(t.host.member(second)).toMatchObject({ locator: null, pending_locator: null, settled_turns: 0 });
  expect(savedBytes()).toBe(saved);
  names("");
  expect((await play(t, second, "The code word is whelk.")).settlement).toMatchObject({ context: "NEW" });
  expect(t.host.member(second).locator?.nativeId).not.toBe(locator?.nativeId);
  expect((await play(t, member, "What is the code word?")).settlement).toMatchObject({
    context: "RESTORED",
    parts: ["The code word is kelp."],
  });
});

test("P20, B4: a process that names another session in its handshake is LOST before a byte of the prompt; the saved one is found again", async () => {
  const { t, sandbox, member, names, savedBytes } = await staged();
  const saved = savedBytes();
  names(`status ${OTHER}`);
  t.model.reset();
  const { settlement } = await play(t, member, "Are you the one?");
  expect(settlement).toMatchObject({
    outcome: "refused",
    settled: false,
    context: "LOST",
    contextReason: `the CLI names another session: ${OTHER}`,
    error: { code: "CONTEXT_LOST" },
  });
  expect(t.model.requests()).toEqual([]);
  expect(savedBytes()).toBe(saved);
  await slotIsEmpty(sandbox, member);
  names("");
  expect((await play(t, member, "What is the code word?")).settlement).toMatchObject({
    context: "RESTORED",
    parts: ["The code word is kelp."],
  });
});
