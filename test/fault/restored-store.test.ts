/** The store is an earlier one: what the sandbox knows beyond it is noticed, nothing is sent twice, the conversation goes on. */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";

const FILES = ["holdfast.db", "holdfast.db-wal", "holdfast.db-shm"];

/** A copy of the store's files while nobody owns them, and what puts it back in their place. */
async function backup(t: TestHost): Promise<{ restore: () => Promise<void> }> {
  const folder = mkdtempSync("/tmp/hf-backup-");
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // A store that was closed has no write-ahead files; those of another one must not be left beside it.
  const copy = async (from: string, to: string) => {
    for (const name of FILES) {
      rmSync(join(to, name), { force: true });
      if (existsSync(join(from, name))) copyFileSync(join(from, name), join(to, name));
    }
  };
  await t.reopen(() => copy(t.directory, folder));
  return { restore: async () => void (await t.reopen(() => copy(folder, t.directory))) };
}

test("A3, law 3: a store restored from a backup finds its sandbox ahead: numbers go on, the next turn is proven, nothing comes twice", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "process");
  await play(t, member, "The first word is nacre.");
  const { restore } = await backup(t);
  // More openings than the backup knows of: the bridge sees fences that the restored store has never given.
  for (let n = 0; n < 3; n += 1) await t.reopen();
  await play(t, member, "The second word is byssus.");
  await play(t, member, "The third word is operculum.");
  await restore();
  expect(t.host.member(member)).toMatchObject({ submissions: 1, settled_turns: 1 });
  const sent = t.model.mainRequests().length;

  await t.host.startSandbox(sandbox);
  expect(t.host.member(member)).toMatchObject({ submissions: 3, settled_turns: 1 });
  expect(t.warnings.join("\n")).toContain("the store is older than the sandbox");
  const next = await play(t, member, "Go on.");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(next.settlement.contextReason).toMatch(/store is older/);
  expect(next.handle.number).toBe(4);
  const requests = t.model.mainRequests();
  expect(requests).toHaveLength(sent + 1);
  for (const text of [
    "The first word is nacre.",
    "The second word is byssus.",
    "The third word is operculum.",
  ])
    expect(userTexts(requests.at(-1)).filter((each) => each === text)).toHaveLength(1);
  expect((await play(t, member, "And on.")).settlement.context).toBe("LIVE");
});

test("law 11: a turn that the restored store does not have is ended; one that it has open is unknown", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { member, sandbox } = createMember(t.host, "process");
  await play(t, member, "The first word is nacre.");
  const { restore } = await backup(t);
  const second = await play(t, member, "The second word is byssus.");
  t.model.script("Talk on", [{ kind: "neverEnd", text: "talking " }]);
  const running = follow(t.host.submit(member, "Talk on."));
  await until("some text", () => running.seen().length > 20, 30_000);
  await restore();
  expect(() => t.host.turn(second.handle.id)).toThrow(expect.objectContaining({ code: "TURN_UNKNOWN" }));
  await t.host.startSandbox(sandbox);
  await t.model.waitForRequest(({ ending }) => ending === "gone", 20_000);
  expect(t.warnings.join("\n")).toContain(`a turn that nobody waits for is ended: ${running.handle.id}`);
  const before = t.model.mainRequests().length;
  t.model.script("Go on", ["Gone on."]);
  const next = await play(t, member, "Go on.");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED", parts: ["Gone on."] });
  expect(t.model.mainRequests()).toHaveLength(before + 1);
});
