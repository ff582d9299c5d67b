/**
 * The journal's format: one line a record, `CRC32 SPACE JSON LF`. Pure; the file is `journal.ts`'s.
 *
 * Torn-tail rule: bytes after the last whole, correct line are what a crash left of the last write and are dropped. A
 * wrong line that is *followed* by a correct one is no torn tail: the journal is damaged and is not used.
 */
import { crc32 } from "node:zlib";
import * as z from "zod/mini";
import { NumberedEvent } from "../protocol/events.ts";
import { Count, NativeId, OurId } from "../protocol/ids.ts";

export const JournalRecord = z.discriminatedUnion("t", [
  /** First record of each file: who this journal is, and where its numbers begin. */
  z.object({
    t: z.literal("journal"),
    journalId: OurId,
    seq: Count,
    acked: Count,
    epoch: Count,
    fence: Count,
  }),
  /** A bridge life began. */
  z.object({ t: z.literal("life"), epoch: Count }),
  /** It ended in order: no turn open, every slot empty, nothing written behind this. */
  z.object({ t: z.literal("stopped") }),
  z.object({ t: z.literal("event"), entry: NumberedEvent }),
  /** The controller has everything up to here. */
  z.object({ t: z.literal("acked"), seq: Count }),
  /** The highest fence seen; lower ones are refused. */
  z.object({ t: z.literal("fence"), fence: Count }),
  /** What a compaction of the file must keep beyond its events: accepted numbers, ended, vetoed and open turns. */
  z.object({ t: z.literal("number"), member: OurId, number: Count }),
  z.object({ t: z.literal("closed"), turn: OurId, how: z.enum(["ended", "vetoed"]) }),
  /** An open turn as far as it had come: its acceptance may be acknowledged and gone. */
  z.object({
    t: z.literal("open"),
    turn: OurId,
    member: OurId,
    number: Count,
    wasSubmitting: z.boolean(),
    wasDelivered: z.boolean(),
    nativeId: z.nullable(NativeId),
    nativeMessage: z.nullable(NativeId),
  }),
]);
export type JournalRecord = z.infer<typeof JournalRecord>;

export function encodeRecord(record: JournalRecord): string {
  const json = JSON.stringify(record);
  return `${checksum(json)} ${json}\n`;
}

export interface JournalReading {
  /** Every correct line's record; of a damaged file also those behind the damage. */
  records: JournalRecord[];
  /** Bytes up to and with the last correct line; the file is cut here before anything is appended. */
  wholeBytes: number;
  /** A wrong line with correct ones behind it: the file can't be trusted. */
  isDamaged: boolean;
}

export function readRecords(bytes: Buffer): JournalReading {
  const records: JournalRecord[] = [];
  let wholeBytes = 0;
  let sawWrong = false;
  let isDamaged = false;
  let from = 0;
  while (from < bytes.length) {
    const newline = bytes.indexOf(0x0a, from);
    const record = newline === -1 ? null : decodeLine(bytes.toString("utf8", from, newline));
    if (record === null) {
      sawWrong = true;
    } else {
      records.push(record);
      if (sawWrong) isDamaged = true;
      else wholeBytes = newline + 1;
    }
    if (newline === -1) break;
    from = newline + 1;
  }
  return { records, wholeBytes, isDamaged };
}

function decodeLine(line: string): JournalRecord | null {
  const json = line.slice(9);
  if (line[8] !== " " || line.slice(0, 8) !== checksum(json)) return null;
  const parsed = JournalRecord.safeParse(parseJson(json));
  return parsed.success ? parsed.data : null;
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function checksum(json: string): string {
  return crc32(json).toString(16).padStart(8, "0");
}
