import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { missingHistory, transcriptPath } from "../../../../bridge/drivers/claude/history.ts";
import { openSlot } from "../../../../bridge/slots.ts";
import type { BridgeConfig } from "../../../../protocol/bridge-config.ts";
import { LOCATOR } from "../../../support/samples.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";

const ID = "11111111-2222-4333-8444-555555555555";
const ROWS = [
  { type: "user", uuid: "u1", parentUuid: null },
  { type: "assistant", uuid: "a1", parentUuid: "u1", message: { id: "m1" } },
];

async function slotWith(text: string | null) {
  const workspace = temporaryDirectory();
  const config = { sandboxId: "sb", slotsDirectory: temporaryDirectory(), workspace, users: null };
  const slot = await openSlot(config as BridgeConfig, "m-1");
  const path = transcriptPath(slot.home, slot.workspace, ID);
  if (text !== null) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  const locator = { ...LOCATOR, cli: "claude" as const, nativeId: ID, directory: slot.workspace };
  return (tail: typeof LOCATOR.tail) => missingHistory(slot, { ...locator, tail });
}

const lines = (rows: object[]) => rows.map((each) => `${JSON.stringify(each)}\n`).join("");

test("law 8: the tail that is in the transcript is proven; what is not, or on a dead branch, is said", async () => {
  const missing = await slotWith(lines([...ROWS, { type: "user", uuid: "x1", parentUuid: null }]));
  expect(await missing({ role: "user", id: "x1" })).toBeNull();
  expect(await missing({ role: "assistant", id: "a1" })).toContain("branch");
  expect(await missing({ role: "assistant", id: "a9" })).toBe("the history lacks the last settled turn");
  expect(await missing(null)).toBeNull();
});

test("P23: no transcript, and a blank one, are no history", async () => {
  expect(await (await slotWith(null))({ role: "assistant", id: "a1" })).toBe(
    "the session's transcript is gone",
  );
  expect(await (await slotWith(null))(null)).toBe("the session's transcript is gone");
  expect(await (await slotWith(""))({ role: "assistant", id: "a1" })).toBe(
    "the history lacks the last settled turn",
  );
});

test("law 13: a tail far from the end is still found, in a second and larger look", async () => {
  const fill = { type: "user", uuid: "u2", parentUuid: "a1", text: "x".repeat(5 * 1024 * 1024) };
  expect(await (await slotWith(lines([...ROWS, fill])))({ role: "assistant", id: "a1" })).toBeNull();
});

// Tried on both pinned versions.
test("a transcript lies under its directory's spelling, cut and numbered where it is long", () => {
  expect(transcriptPath("/home/agent", "/place/a_b.c", ID)).toBe(
    `/home/agent/.claude/projects/-place-a-b-c/${ID}.jsonl`,
  );
  const long = `/tmp/${"long_dir.é-".repeat(12)}/${"b".repeat(120)}`;
  const name = transcriptPath("/h", long, ID).split("/")[4] ?? "";
  expect(name).toMatch(/^-tmp-long-dir-[-a-z]+-[0-9a-z]+$/);
  expect(name.slice(0, 200)).toBe(long.replaceAll(/[^a-zA-Z0-9]/g, "-").slice(0, 200));
});
