/** What a damaged database of OpenCode and Kilo is worth: refused, nothing sent, and never continued as if it were whole. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { startTestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";
import { KILO_SUBJECT, OPENCODE_SUBJECT } from "./suite/served.ts";

/** The database's one file, with all in it that was in its log. */
function wholeFile(slot: string): string {
  const [file, ...more] = readdirSync(slot, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".db"),
  );
  if (file === undefined || more.length > 0) throw new Error("one database was expected");
  const path = join(slot, file);
  onDatabase(path, "PRAGMA wal_checkpoint(TRUNCATE)");
  return path;
}

function onDatabase(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  database.exec(sql);
  database.close();
}

function put(path: string, bytes: Buffer): void {
  for (const each of [`${path}-wal`, `${path}-shm`]) rmSync(each, { force: true });
  writeFileSync(path, bytes);
}

const PAGES = 64 * 1024;
const LOST = (reason: string) => ({
  context: "LOST",
  contextReason: reason,
  error: { code: "CONTEXT_LOST" },
});
/** The CLI itself does not start on it: no verdict over the conversation, which may be put back. */
const UNREADABLE = { context: null, error: { code: "CLI_NOT_READY" } };
const DAMAGES: ReadonlyArray<[what: string, damage: (path: string, whole: Buffer) => void, means: object]> = [
  ["cut in its middle", (path, whole) => put(path, whole.subarray(0, whole.length / 2)), UNREADABLE],
  [
    "a block of zeros at its end",
    (path, whole) => put(path, Buffer.concat([whole.subarray(0, -PAGES), Buffer.alloc(PAGES)])),
    UNREADABLE,
  ],
  ["empty", (path) => put(path, Buffer.alloc(0)), LOST("the CLI has no session with the saved id")],
  [
    "without its last answer",
    (path) =>
      onDatabase(
        path,
        `DELETE FROM part WHERE message_id = (SELECT max(id) FROM message);
         DELETE FROM message WHERE id = (SELECT max(id) FROM message)`,
      ),
    LOST("the history lacks the last settled turn"),
  ],
];

for (const subject of [OPENCODE_SUBJECT, KILO_SUBJECT]) {
  const { cli } = subject.manifest;
  test(`P23, law 8: a database of ${cli} that is cut, blank, zeroed or ends earlier is refused and nothing is sent; whole again it is RESTORED`, async () => {
    const t = await startTestHost();
    tellOnFailure(t);
    const sandbox = t.host.createSandbox({ kind: "process" }).id;
    const member = t.host.createMember({ sandbox, cli, ...subject.member }).id;
    await play(t, member, "The code word is kelp.");
    await play(t, member, "And a second message.");
    await t.host.stopSandbox(sandbox);
    const { locator } = t.host.member(member);
    const path = wholeFile(`${t.host.store.sandbox(sandbox)?.directory}/slots/${member}`);
    const whole = readFileSync(path);
    t.model.reset();
    for (const [what, damage, means] of DAMAGES) {
      put(path, whole);
      damage(path, whole);
      const { settlement } = await play(t, member, "What is the code word?");
      expect(settlement, what).toMatchObject({ outcome: "refused", settled: false, ...means });
      await t.host.stopSandbox(sandbox);
    }
    expect(t.model.requests()).toEqual([]);
    expect(t.host.member(member).locator).toEqual(locator);
    put(path, whole);
    const { settlement } = await play(t, member, "What is the code word?");
    expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is kelp."] });
    expect(userTexts(t.model.mainRequests()[0])[0]).toBe("The code word is kelp.");
  }, 240_000);
}
