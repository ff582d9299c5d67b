/**
 * The bridge's journal: an append-only file. An append resolves when its record is on disk (fdatasync), and appends
 * that come while a sync is under way share the next one (group commit). Format: `journal-record.ts`.
 *
 * It does not decide what is journaled, and it sends nothing.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { HoldfastError, storageFault } from "../protocol/errors.ts";
import { ControlEvent, type NumberedEvent } from "../protocol/events.ts";
import { encodeRecord, type JournalRecord, readRecords } from "./journal-record.ts";
import { applyRecord, compactRecords, emptyState, type JournalState, salvage } from "./journal-state.ts";
import type { Log } from "./log.ts";

/** A file beyond this, and beyond twice what still mattered last time, is rewritten with what still matters. */
const COMPACT_BYTES = 4 * 1024 * 1024;

/** Unacknowledged events kept. Beyond: OVERLOADED for new turns, and running ones are ended. */
export const UNACKED_EVENTS = 100_000;

export interface Journal {
  readonly state: Readonly<JournalState>;
  /**
   * Numbers and stores an event. Resolves when it is durable. Rejects with STORE_ERROR or DISK_FULL; then nothing more is taken.
   * Rejects with INTERNAL when the event does not fit its schema: it could be neither read again nor sent.
   */
  append(event: ControlEvent): Promise<NumberedEvent>;
  /** Stores the controller's acknowledgement; it need not be durable before anything else happens. */
  acknowledge(seq: number): void;
  /** Resolves when the fence is durable. Rejects with FENCED when a higher one was seen. */
  takeFence(fence: number): Promise<void>;
  /** Called with each event once it is durable, in order. */
  onDurable(run: (entry: NumberedEvent) => void): void;
  /** @param isClean leaves the mark of a clean stop behind everything else, durable */
  close(isClean?: boolean): Promise<void>;
}

interface Waiting {
  record: JournalRecord;
  resolve(): void;
  reject(error: HoldfastError): void;
}

export async function openJournal(
  path: string,
  options: { nowAt: () => number; log: Log },
): Promise<Journal> {
  const state = await loadState(path, options.log);
  const queue: Waiting[] = [];
  const listeners: Array<(entry: NumberedEvent) => void> = [];
  // `numbered` and `seenFence` run ahead of `state`, which follows when they are durable.
  let numbered = state.head;
  let seenFence = state.fence;
  let failure: HoldfastError | null = null;
  let draining: Promise<void> | null = null;
  let { file, bytes } = await writeBeside(path, state);
  await replace(path);
  let compactAtBytes = nextCompaction(bytes);

  function enqueue(record: JournalRecord): Promise<void> {
    if (failure !== null) return Promise.reject(failure);
    return new Promise((resolve, reject) => {
      queue.push({ record, resolve, reject });
      draining ??= drain().finally(() => {
        draining = null;
      });
    });
  }

  async function drain(): Promise<void> {
    // Let everything that is appended in this turn of the loop join the first group.
    await Promise.resolve();
    while (queue.length > 0) {
      const group = queue.splice(0);
      try {
        const chunk = Buffer.from(group.map(({ record }) => encodeRecord(record)).join(""));
        await file.appendFile(chunk);
        await file.datasync();
        bytes += chunk.length;
      } catch (cause) {
        return fail(cause, group);
      }
      for (const { record, resolve } of group) {
        applyRecord(state, record);
        if (record.t === "event") for (const run of listeners) run(record.entry);
        resolve();
      }
      if (bytes > compactAtBytes && queue.length === 0) await compact();
    }
  }

  function fail(cause: unknown, group: readonly Waiting[]): void {
    const error = storageFault("the bridge's journal can't be written", cause);
    failure = error;
    for (const waiting of [...group, ...queue.splice(0)]) waiting.reject(error);
  }

  async function compact(): Promise<void> {
    const old = file;
    try {
      ({ file, bytes } = await writeBeside(path, state));
    } catch (error) {
      // The old file is whole and goes on; the next try comes when it has doubled.
      options.log.warn("the journal could not be rewritten", { error: String(error) });
      compactAtBytes = nextCompaction(bytes);
      return;
    }
    compactAtBytes = nextCompaction(bytes);
    try {
      await replace(path);
      await old.close();
    } catch (cause) {
      // Nobody knows which of the two files the next life will find.
      fail(cause, []);
    }
  }

  return {
    state,
    async append(event) {
      const parsed = ControlEvent.safeParse(event);
      if (!parsed.success) {
        const where = parsed.error.issues[0]?.path.join(".") ?? "";
        throw new HoldfastError("INTERNAL", `a ${event.type} event does not fit its schema at "${where}"`);
      }
      const entry: NumberedEvent = { seq: ++numbered, at: options.nowAt(), event };
      await enqueue({ t: "event", entry });
      return entry;
    },
    acknowledge(seq) {
      if (seq <= state.acked) return;
      // A lost acknowledgement costs a replay, which has no effect: the failure is kept for the next append.
      enqueue({ t: "acked", seq }).catch((error: unknown) => {
        options.log.warn("acknowledgement not stored", { error: String(error) });
      });
    },
    async takeFence(fence) {
      if (fence < seenFence) {
        throw new HoldfastError("FENCED", `fence ${fence} is lower than ${seenFence}, which was seen before`);
      }
      seenFence = fence;
      if (fence > state.fence) await enqueue({ t: "fence", fence });
    },
    onDurable(run) {
      listeners.push(run);
    },
    async close(isClean = false) {
      if (isClean && failure === null) await enqueue({ t: "stopped" });
      failure ??= new HoldfastError("STOPPED");
      await draining;
      await file.close();
    },
  };
}

/** The state that the file says; a damaged file is set aside and a new journal, with a new id, begins. */
async function loadState(path: string, log: Log): Promise<JournalState> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw new HoldfastError("STORE_ERROR", "the bridge's journal can't be read", { cause: error });
    }
    return beginLife(emptyState(`journal-${randomUUID()}`));
  }
  const { records, wholeBytes, isDamaged } = readRecords(bytes);
  const state = isDamaged ? null : fold(records);
  if (state !== null) {
    if (wholeBytes < bytes.length) {
      log.warn("torn tail of the journal dropped", { bytes: bytes.length - wholeBytes });
    }
    return beginLife(state);
  }
  const aside = `${path}.damaged-${Date.now()}`;
  await rename(path, aside);
  log.warn("damaged journal set aside; a new one begins", { file: aside });
  const next = emptyState(`journal-${randomUUID()}`);
  salvage(next, records);
  // A journal that begins because the last one can't be read is no first life.
  return { ...beginLife(next), earlierEnd: "unclean" };
}

/** The state of correct records; null when they don't begin with a journal's own, or leave a gap. */
function fold(records: readonly JournalRecord[]): JournalState | null {
  if (records[0]?.t !== "journal") return null;
  const state = emptyState(records[0].journalId);
  try {
    for (const record of records) applyRecord(state, record);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
  return state;
}

function beginLife(state: JournalState): JournalState {
  applyRecord(state, { t: "life", epoch: state.epoch + 1 });
  return state;
}

function nextCompaction(bytes: number): number {
  return Math.max(COMPACT_BYTES, bytes * 2);
}

function besidePath(path: string): string {
  return `${path}.new`;
}

/** Writes the state as a whole file beside the journal. A file that a crash has left there is replaced. */
async function writeBeside(path: string, state: JournalState): Promise<{ file: FileHandle; bytes: number }> {
  const chunk = Buffer.from(compactRecords(state).map(encodeRecord).join(""));
  await rm(besidePath(path), { force: true });
  try {
    const file = await open(besidePath(path), "ax", 0o600);
    try {
      await file.appendFile(chunk);
      await file.sync();
    } catch (error) {
      await file.close();
      throw error;
    }
    return { file, bytes: chunk.length };
  } catch (cause) {
    throw storageFault("the bridge's journal can't be made", cause);
  }
}

/** Puts the new file in the journal's place: a crash finds the old one or the new one, never half of one. */
async function replace(path: string): Promise<void> {
  await rename(besidePath(path), path);
  await syncDirectory(dirname(path));
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
