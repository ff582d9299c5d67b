import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { type Journal, openJournal } from "../../bridge/journal.ts";
import { encodeRecord, readRecords } from "../../bridge/journal-record.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { type KeptLog, keptLog } from "../support/kept-log.ts";
import { AT, EVENTS, SETTLEMENT } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

async function open(path: string, log: KeptLog = keptLog()): Promise<Journal> {
  const journal = await openJournal(path, { nowAt: () => AT, log });
  onTestFinished(() => journal.close().catch(() => undefined /* closed by the test */));
  return journal;
}

/** The journal of a next life of the bridge, without a word from the earlier one: as after a SIGKILL. */
async function afterDeath(path: string): Promise<{ journal: Journal; path: string }> {
  const copy = join(temporaryDirectory(), "journal");
  copyFileSync(path, copy);
  return { journal: await open(copy), path: copy };
}

function accepted(turn: string, number: number): ControlEvent {
  return { type: "turn.accepted", member: "m-1", turn, number };
}
function ended(turn: string, number: number): ControlEvent {
  return { type: "turn.ended", member: "m-1", turn, number, settlement: SETTLEMENT };
}
/** An event of about so many bytes. */
function bulky(bytes: number): ControlEvent {
  return {
    ...EVENTS["turn.ended"],
    turn: "t-bulk",
    settlement: { ...SETTLEMENT, parts: ["x".repeat(bytes)] },
  };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "none";
  } catch (error) {
    return error instanceof HoldfastError ? error.code : String(error);
  }
}

test("a new journal has a random id, epoch 1 and nothing in it", async () => {
  const [one, two] = [
    await open(join(temporaryDirectory(), "journal")),
    await open(join(temporaryDirectory(), "j")),
  ];
  expect(one.state).toMatchObject({ epoch: 1, head: 0, acked: 0, fence: 0, unacked: [] });
  expect(one.state.journalId).not.toBe(two.state.journalId);
});

test("the journal is for its owner only", async () => {
  const path = join(temporaryDirectory(), "state", "journal");
  await open(path);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(path, "..")).mode & 0o777).toBe(0o700);
});

test("an append resolves when its record is in the file", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  const entry = await journal.append(accepted("t-1", 1));
  expect(readRecords(readFileSync(path)).records.at(-1)).toEqual({ t: "event", entry });
});

test("appends at once share a sync, keep their order and are numbered without gaps", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  const told: number[] = [];
  journal.onDurable((entry) => told.push(entry.seq));
  const entries = await Promise.all(
    Array.from({ length: 200 }, (_, at) => journal.append(accepted(`t-${at}`, at + 1))),
  );
  const seqs = Array.from({ length: 200 }, (_, at) => at + 1);
  expect(entries.map(({ seq }) => seq)).toEqual(seqs);
  expect(told).toEqual(seqs);
  expect(
    readRecords(readFileSync(path)).records.flatMap((r) => (r.t === "event" ? [r.entry.seq] : [])),
  ).toEqual(seqs);
});

test("nobody is told of an event before it is in the file", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  const inFile: boolean[] = [];
  journal.onDurable((entry) => inFile.push(readFileSync(path, "utf8").includes(`"seq":${entry.seq},`)));
  await Promise.all([1, 2, 3].map((n) => journal.append(accepted(`t-${n}`, n))));
  expect(inFile).toEqual([true, true, true]);
});

test("a next life sees what was not acknowledged, goes on numbering, and counts one life more", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  for (const n of [1, 2, 3]) await first.append(accepted(`t-${n}`, n));
  first.acknowledge(1);
  await first.append(ended("t-1", 1));
  const { journal: second } = await afterDeath(path);
  expect(second.state.journalId).toBe(first.state.journalId);
  expect(second.state.epoch).toBe(first.state.epoch + 1);
  expect(second.state.unacked).toEqual(first.state.unacked);
  expect(second.state.unacked.map(({ seq }) => seq)).toEqual([2, 3, 4]);
  expect((await second.append(accepted("t-4", 4))).seq).toBe(5);
});

test("what was acknowledged does not come back in any later life", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.append(accepted("t-1", 1));
  await first.append(ended("t-1", 1));
  first.acknowledge(2);
  await first.close();
  for (const epoch of [2, 3]) {
    const journal = await open(path);
    expect(journal.state).toMatchObject({ epoch, head: 2, acked: 2, unacked: [] });
    expect(journal.state.numbers.get("m-1")).toBe(1);
    expect(journal.state.closed.get("t-1")).toBe("ended");
    await journal.close();
  }
});

test("a tail torn at every byte of the last record costs that record and nothing else", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  await journal.append(accepted("t-1", 1));
  const whole = statSync(path).size;
  await journal.append({ type: "turn.vetoed", member: "m-1", turn: "t-2" });
  const bytes = readFileSync(path);
  for (let cut = whole; cut < bytes.length; cut += 1) {
    const torn = join(temporaryDirectory(), "journal");
    writeFileSync(torn, bytes.subarray(0, cut));
    const next = await openJournal(torn, { nowAt: () => AT, log: keptLog() });
    expect(next.state, `cut at ${cut}`).toMatchObject({ journalId: journal.state.journalId, head: 1 });
    expect(next.state.closed.has("t-2")).toBe(false);
    // The number of the torn event is given anew: nobody ever saw it.
    expect((await next.append(ended("t-1", 1))).seq).toBe(2);
    await next.close();
    expect(readRecords(readFileSync(torn))).toMatchObject({ isDamaged: false });
  }
});

test("a torn tail is dropped for good, also while an acknowledged turn is open", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.append(accepted("t-1", 1));
  first.acknowledge(1);
  await first.append({ ...EVENTS["turn.submitting"], turn: "t-1" });
  await first.close();
  writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from("0bad")]));
  const second = await open(path);
  expect(second.state.open.get("t-1")).toMatchObject({ wasSubmitting: true });
  await second.append(ended("t-1", 1));
  await second.close();
  const third = await open(path);
  expect(third.state.journalId).toBe(first.state.journalId);
  expect(third.state.closed.get("t-1")).toBe("ended");
});

test("damage in the middle sets the file aside, and another journal begins", async () => {
  const directory = temporaryDirectory();
  const path = join(directory, "journal");
  const first = await open(path);
  for (const n of [1, 2, 3]) await first.append(accepted(`t-${n}`, n));
  await first.close();
  const bytes = readFileSync(path);
  const at = bytes.indexOf('"t-2"');
  bytes[at + 3] = "9".charCodeAt(0);
  writeFileSync(path, bytes);
  const log = keptLog();
  const second = await open(path, log);
  expect(second.state.journalId).not.toBe(first.state.journalId);
  expect(second.state).toMatchObject({ head: 0, unacked: [] });
  const aside = readdirSync(directory).filter((name) => name.startsWith("journal.damaged-"));
  expect(aside).toHaveLength(1);
  expect(readFileSync(join(directory, aside[0] ?? ""))).toEqual(bytes);
  expect(log.lines.map(({ what }) => what)).toContain("damaged journal set aside; a new one begins");
});

test("a damaged journal's fence, numbers and closed turns still hold: they can only make us stricter", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.takeFence(7);
  for (const n of [1, 2, 3]) await first.append(accepted(`t-${n}`, n));
  await first.append({ type: "turn.vetoed", member: "m-1", turn: "t-9" });
  await first.close();
  writeFileSync(path, readFileSync(path, "utf8").replace('"t-2"', '"t-X"'));
  const second = await open(path);
  expect(second.state.journalId).not.toBe(first.state.journalId);
  expect(await codeOf(second.takeFence(6))).toBe("FENCED");
  expect(second.state.numbers.get("m-1")).toBe(3);
  expect(second.state.closed.get("t-9")).toBe("vetoed");
  expect(second.state.open.size).toBe(0);
});

test("a gap between correct records is damage too, and does not keep the bridge from starting", async () => {
  const path = join(temporaryDirectory(), "journal");
  const header = { t: "journal", journalId: "j-1", seq: 0, acked: 0, epoch: 1, fence: 0 } as const;
  const entry = { seq: 2, at: AT, event: accepted("t-1", 1) };
  writeFileSync(path, encodeRecord(header) + encodeRecord({ t: "event", entry }));
  const journal = await open(path);
  expect(journal.state.journalId).not.toBe("j-1");
  expect(journal.state.numbers.get("m-1")).toBe(1);
});

test("a lower fence is refused and the highest one is stored over lives", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.takeFence(4);
  await first.takeFence(4);
  expect(await codeOf(first.takeFence(3))).toBe("FENCED");
  const { journal: second, path: copy } = await afterDeath(path);
  expect(await codeOf(second.takeFence(3))).toBe("FENCED");
  await second.takeFence(9);
  await second.close();
  expect(await codeOf((await open(copy)).takeFence(8))).toBe("FENCED");
});

test("a lower fence is refused while the higher one is still on its way to the disk", async () => {
  const journal = await open(join(temporaryDirectory(), "journal"));
  const higher = journal.takeFence(5);
  expect(await codeOf(journal.takeFence(4))).toBe("FENCED");
  await higher;
  expect(journal.state.fence).toBe(5);
});

test("a fence that is on its way to the disk is not taken for stored", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  const first = journal.takeFence(5);
  await journal.takeFence(5);
  expect(readFileSync(path, "utf8")).toContain('"fence":5');
  await first;
});

test("a full disk ends the journal with STORE_ERROR; what was durable stays, and nothing else comes", async () => {
  const path = join(temporaryDirectory(), "journal");
  const program = new URL("../stand-ins/appends-until-full.ts", import.meta.url).pathname;
  const said = JSON.parse(
    execFileSync("/bin/sh", ["-c", 'ulimit -f 16; exec "$0" "$1" "$2"', process.execPath, program, path], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }),
  );
  expect(said.durable).toBeGreaterThan(10);
  expect(said.codes).toEqual(["STORE_ERROR", "STORE_ERROR"]);
  expect(said.head).toBe(said.durable);
  const journal = await open(path);
  expect(journal.state.head).toBe(said.durable);
  expect(journal.state.numbers.get("m-1")).toBe(said.durable);
});

test("an event that could not be read again is refused and never reaches the file", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  await journal.append(accepted("t-1", 1));
  const tooLong = { ...EVENTS["turn.tool"], title: "x".repeat(5000) };
  expect(await codeOf(journal.append(tooLong))).toBe("INTERNAL");
  expect((await journal.append(ended("t-1", 1))).seq).toBe(2);
  await journal.close();
  const next = await open(path);
  expect(next.state).toMatchObject({ journalId: journal.state.journalId, head: 2 });
});

test("a large file is rewritten with what still matters, and says the same", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.takeFence(3);
  for (let n = 1; n <= 12; n += 1) {
    await first.append(accepted(`t-${n}`, n));
    await first.append(bulky(500_000));
    await first.append(ended(`t-${n}`, n));
    first.acknowledge(first.state.head);
  }
  await first.append(accepted("t-13", 13));
  expect(statSync(path).size).toBeLessThan(5_000_000);
  const { journal: second } = await afterDeath(path);
  expect(second.state).toEqual({ ...first.state, epoch: 2, earlierEnd: "unclean" });
});

test("the file stays bounded while some turn is always open", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  for (let n = 1; n <= 40; n += 1) {
    await first.append(accepted(`t-${n}`, n));
    await first.append(bulky(300_000));
    if (n > 1) await first.append(ended(`t-${n - 1}`, n - 1));
    first.acknowledge(first.state.head);
  }
  expect(statSync(path).size).toBeLessThan(6_000_000);
  const { journal: second } = await afterDeath(path);
  expect([...second.state.open.keys()]).toEqual(["t-40"]);
});

test("a long backlog is not written anew with every append", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  for (let n = 0; n < 12; n += 1) await journal.append(bulky(500_000));
  const files = new Set<number>();
  for (let n = 1; n <= 20; n += 1) {
    await journal.append(EVENTS["member.process"]);
    files.add(statSync(path).ino);
  }
  expect(files.size).toBe(1);
});

test("S17: what is appended, and what a rewrite keeps, is encoded once: the same bytes are counted and written", async () => {
  const path = join(temporaryDirectory(), "journal");
  const encodings = vi.spyOn(JSON, "stringify");
  onTestFinished(() => encodings.mockRestore());
  const times = (part: string) =>
    encodings.mock.results.filter(({ value }) => String(value).includes(part)).length;
  const first = await open(path);
  for (let n = 1; n <= 3; n += 1) await first.append(bulky(500_000));
  expect(times("xxxx")).toBe(3);
  await first.close();
  const file = statSync(path).ino;
  encodings.mockClear();
  // A life begins with a rewrite.
  await open(path);
  expect(statSync(path).ino).not.toBe(file);
  const lines = readFileSync(path, "utf8").trimEnd().split("\n");
  expect(lines.filter((line) => line.includes("xxxx"))).toHaveLength(3);
  expect(times("")).toBe(lines.length);
  expect(times("xxxx")).toBe(3);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(existsSync(`${path}.new`)).toBe(false);
});

test("a rewrite that fails costs nothing: the old file goes on", async () => {
  const directory = join(temporaryDirectory(), "state");
  const log = keptLog();
  const journal = await open(join(directory, "journal"), log);
  rmSync(directory, { recursive: true });
  for (let n = 0; n < 10; n += 1) await journal.append(bulky(500_000));
  expect(journal.state.head).toBe(10);
  expect(log.lines.map(({ what }) => what)).toContain("the journal could not be rewritten");
});

test("S17: a crash in the middle of a rewrite leaves the old file, and no half of the new one is used", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.append(accepted("t-1", 1));
  await first.close();
  writeFileSync(`${path}.new`, "0000");
  const second = await open(path);
  expect(second.state.head).toBe(1);
  expect(existsSync(`${path}.new`)).toBe(false);
});

test("a close waits for what was appended before it and takes nothing after it", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  const before = journal.append(accepted("t-1", 1));
  const closing = journal.close();
  expect(await codeOf(journal.append(accepted("t-2", 2)))).toBe("STOPPED");
  await closing;
  expect((await before).seq).toBe(1);
  expect((await open(path)).state.head).toBe(1);
});

test("a journal that can't be read is no new journal", async () => {
  expect(await codeOf(openJournal(temporaryDirectory(), { nowAt: () => AT, log: keptLog() }))).toBe(
    "STORE_ERROR",
  );
});

test("a clean stop leaves its mark last, and each life knows how the one before it ended", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  expect(first.state.earlierEnd).toBe("none");
  await first.append(accepted("t-1", 1));
  await first.close(true);
  expect(readRecords(readFileSync(path)).records.at(-1)).toEqual({ t: "stopped" });
  const second = await open(path);
  expect(second.state.earlierEnd).toBe("clean");
  await second.close();
  expect((await open(path)).state.earlierEnd).toBe("unclean");
  const { journal } = await afterDeath(path);
  expect(journal.state.earlierEnd).toBe("unclean");
});

test("a journal that can't be written any more is closed without a mark", async () => {
  const path = join(temporaryDirectory(), "journal");
  const journal = await open(path);
  await journal.close();
  await journal.close(true).catch(() => undefined);
  expect(readRecords(readFileSync(path)).records.some(({ t }) => t === "stopped")).toBe(false);
});

test("a life that begins with a new journal, since the last one was damaged, does not call it clean", async () => {
  const path = join(temporaryDirectory(), "journal");
  const first = await open(path);
  await first.append(accepted("t-1", 1));
  await first.close(true);
  const bytes = readFileSync(path);
  bytes[20] = (bytes[20] ?? 0) ^ 1;
  writeFileSync(path, bytes);
  expect((await open(path)).state.earlierEnd).toBe("unclean");
});
