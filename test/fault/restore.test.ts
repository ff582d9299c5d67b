/** A store brought back from a backup, while its sandbox went on: followed from where it stands, and nothing is sent twice. */
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { backupStore } from "../../controller/store/backup.ts";
import { checkStore } from "../../controller/store/check.ts";
import { createMember, startTestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";

test("a sandbox that ran on after the backup is followed, its missing turn is told by its number, and the conversation is whole", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { member } = createMember(t.host, "process");
  await play(t, member, "The code word is limpet.");
  const file = join(t.directory, "copy");
  await backupStore({ directory: t.directory, file, nowAt: () => Date.now() });
  const missing = await play(t, member, "What is the code word?");
  expect(missing.settlement.outcome).toBe("completed");
  const before = t.host.store.fence;

  const host = await t.reopen(async () => {
    for (const end of ["", "-wal", "-shm"]) await rm(join(t.directory, `holdfast.db${end}`), { force: true });
    await copyFile(file, join(t.directory, "holdfast.db"));
  });
  expect(host.store.fence).toBeGreaterThan(before + 1000);
  expect(() => host.turn(missing.handle.id)).toThrow(expect.objectContaining({ code: "TURN_UNKNOWN" }));
  expect(host.member(member)).toMatchObject({ settled_turns: 1, submissions: 1 });

  t.model.reset();
  const told = await play(t, member, "What is the code word?");
  expect(told.settlement).toMatchObject({ outcome: "not_sent", error: { code: "TURN_NUMBER_USED" } });
  expect(t.model.requests()).toEqual([]);
  const again = await play(t, member, "What is the code word?");
  expect(again.settlement).toMatchObject({
    outcome: "completed",
    settled: true,
    parts: ["The code word is limpet."],
  });
  expect(userTexts(t.model.mainRequests()[0])).toEqual([
    "The code word is limpet.",
    "What is the code word?",
    "What is the code word?",
  ]);
  expect(host.member(member)).toMatchObject({ settled_turns: 2, submissions: 3 });
  expect(checkStore(join(t.directory, "holdfast.db")).problems).toEqual([]);
});
