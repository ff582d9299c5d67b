import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRecord } from "../../../../bridge/drivers/codex/rollout-file.ts";
import type { Slot } from "../../../../bridge/slots.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";

const slotIn = (root: string) => ({ user: null, root, markValue: "none" }) as Slot;

async function linesOf(content: string | Buffer, pieceBytes?: number): Promise<string[]> {
  const directory = temporaryDirectory();
  const path = join(directory, "a record's file.jsonl");
  writeFileSync(path, content);
  const lines: string[] = [];
  expect(await readRecord(slotIn(directory), path, (line) => lines.push(line), null, pieceBytes)).toBe(true);
  return lines;
}

test("every line is handed over, in order, the last one without its end too", async () => {
  expect(await linesOf("one\ntwo\n")).toEqual(["one", "two", ""]);
  expect(await linesOf("one\ntwo")).toEqual(["one", "two"]);
  expect(await linesOf("")).toEqual([""]);
});

test("P25: pieces of any size give the same lines, with characters of several bytes cut anywhere", async () => {
  const content = `{"a":"é"}\n{"b":"漢字 🦑"}\n{"c":"plain"}\n`;
  const whole = await linesOf(content);
  expect(whole.map((line) => line.length)).toEqual([
    ...content.split("\n").map((line) => Buffer.byteLength(line)),
  ]);
  for (const line of whole.slice(0, 3)) expect(() => JSON.parse(line)).not.toThrow();
  for (let pieceBytes = 1; pieceBytes < 12; pieceBytes += 1) {
    expect(await linesOf(content, pieceBytes)).toEqual(whole);
  }
});

test("what is no file is none, and what can't be read is an error and no loss", async () => {
  const directory = temporaryDirectory();
  const slot = slotIn(directory);
  const none = join(directory, "none");
  expect(await readRecord(slot, none, () => undefined)).toBe(false);
  mkdirSync(none);
  expect(await readRecord(slot, none, () => undefined)).toBe(false);
  await expect(readRecord(slot, join(directory, "x\0y"), () => undefined)).rejects.toThrow();
});
