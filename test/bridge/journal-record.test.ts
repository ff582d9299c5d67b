import { crc32 } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeRecord, type JournalRecord, readRecords } from "../../bridge/journal-record.ts";
import { EVENTS } from "../support/samples.ts";

const AT = 1_700_000_000_000;
const HEADER: JournalRecord = {
  t: "journal",
  journalId: "j-1",
  seq: 0,
  acked: 0,
  epoch: 1,
  fence: 0,
};
const RECORDS: JournalRecord[] = [
  HEADER,
  { t: "life", epoch: 2 },
  { t: "stopped" },
  ...Object.values(EVENTS).map(
    (event, at): JournalRecord => ({ t: "event", entry: { seq: at + 1, at: AT, event } }),
  ),
  { t: "acked", seq: 2 },
  { t: "fence", fence: 9 },
  { t: "number", member: "m-1", number: 4 },
  { t: "closed", turn: "t-0", how: "vetoed" },
  {
    t: "open",
    turn: "t-2",
    member: "m-1",
    number: 4,
    wasSubmitting: true,
    wasDelivered: false,
    nativeId: "ses_1",
    nativeMessage: "msg_10",
  },
];
const WHOLE = Buffer.from(RECORDS.map(encodeRecord).join(""));
const LAST = Buffer.byteLength(encodeRecord(RECORDS.at(-1) as JournalRecord));

test("records of every kind and every event are read as they were written", () => {
  expect(readRecords(WHOLE)).toEqual({ records: RECORDS, wholeBytes: WHOLE.length, isDamaged: false });
});

test("a record is one line, whatever its texts hold", () => {
  const line = encodeRecord({
    t: "event",
    entry: { seq: 1, at: AT, event: { ...EVENTS["turn.waiting"], reason: 'a\nb\r\n\u2028 "🦑" \ud83e' } },
  });
  expect(line.indexOf("\n")).toBe(line.length - 1);
  expect(readRecords(Buffer.from(line)).records).toHaveLength(1);
});

test("a cut at every byte of the last record leaves all others, and says where to go on", () => {
  const before = WHOLE.length - LAST;
  for (let bytes = before; bytes < WHOLE.length; bytes += 1) {
    const reading = readRecords(WHOLE.subarray(0, bytes));
    expect(reading, `cut at ${bytes}`).toEqual({
      records: RECORDS.slice(0, -1),
      wholeBytes: before,
      isDamaged: false,
    });
  }
});

test("a cut at every byte of the file never looks like damage", () => {
  for (let bytes = 0; bytes <= WHOLE.length; bytes += 1) {
    const reading = readRecords(WHOLE.subarray(0, bytes));
    expect(reading.isDamaged, `cut at ${bytes}`).toBe(false);
    expect(reading.wholeBytes).toBeLessThanOrEqual(bytes);
    expect(RECORDS.slice(0, reading.records.length)).toEqual(reading.records);
  }
});

test("a tail of zeros, as a crash of the machine leaves it, is dropped", () => {
  const torn = Buffer.concat([WHOLE, Buffer.alloc(512)]);
  expect(readRecords(torn)).toEqual({ records: RECORDS, wholeBytes: WHOLE.length, isDamaged: false });
});

test("a changed byte anywhere but in the last record is damage, and the correct records stay readable", () => {
  fc.assert(
    fc.property(fc.nat(WHOLE.length - LAST - 2), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const bytes = Buffer.from(WHOLE);
      bytes[at] = (bytes[at] ?? 0) ^ flip;
      const reading = readRecords(bytes);
      expect(reading.isDamaged).toBe(true);
      const whole = RECORDS.map((record) => JSON.stringify(record));
      for (const record of reading.records) expect(whole).toContain(JSON.stringify(record));
      // One flipped byte costs one record, or two when it was the line break between them.
      expect(reading.records.length).toBeGreaterThanOrEqual(RECORDS.length - 2);
    }),
  );
});

test("a changed byte in the last record alone is a torn tail", () => {
  for (let at = WHOLE.length - LAST; at < WHOLE.length; at += 1) {
    const bytes = Buffer.from(WHOLE);
    bytes[at] = (bytes[at] ?? 0) ^ 0x01;
    expect(readRecords(bytes), `byte ${at}`).toMatchObject({
      isDamaged: false,
      records: RECORDS.slice(0, -1),
    });
  }
});

test("a line with a right checksum that is no JSON, or fits no schema, is wrong and nothing worse", () => {
  const line = (json: string) => `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`;
  for (const json of ["", "{", "null", '{"t":"else"}', '{"t":"fence","fence":-1}']) {
    const bytes = Buffer.from(encodeRecord(HEADER) + line(json));
    expect(readRecords(bytes), json).toMatchObject({ records: [HEADER], isDamaged: false });
  }
});

test("an empty file holds nothing", () => {
  expect(readRecords(Buffer.alloc(0))).toEqual({ records: [], wholeBytes: 0, isDamaged: false });
});
