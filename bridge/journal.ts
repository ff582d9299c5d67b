/**
 * The bridge's journal: an append-only file. An append resolves when its record is on disk (fdatasync), and appends
 * that come while a sync is under way share the next one (group commit). Format: `journal-record.ts`.
 *
 * It does not decide what is journaled, and it sends nothing.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { HoldfastError } from "../protocol/errors.ts";
import type { ControlEvent, NumberedEvent } from "../protocol/events.ts";
import { encodeRecord, type JournalRecord, readRecords } from "./journal-record.ts";
import { applyRecord, canCompact, compactRecords, emptyState, type JournalState } from "./journal-state.ts";
import type { Log } from "./log.ts";

/** A file beyond this is rewritten with what still matters, when no turn is open. */
const COMPACT_BYTES = 4 * 1024 * 1024;

/** Unacknowledged events kept. Beyond: OVERLOADED for new turns, and running ones are ended. */
export const UNACKED_EVENTS = 100_000;

export interface Journal {
  readonly state: Readonly<JournalState>;
  /** Numbers and stores an event. Resolves when it is durable. Rejects with STORE_ERROR; then nothing more is taken. */
  append(event: ControlEvent): Promise<NumberedEvent>;
  /** Stores the controller's acknowledgement; it need not be durable before anything else happens. */
  acknowledge(seq: number): void;
  /** Resolves when the fence is durable. Rejects with FENCED when a higher one was seen. */
  takeFence(fence: number): Promise<void>;
  /** Called with each event once it is durable, in order. */
  onDurable(run: (entry: NumberedEvent) => void): void;
  close(): Promise<void>;
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
  // `numbered` runs ahead of `state`: numbers are given at once, the state follows when they are durable.
  let numbered = state.head;
  let failure: HoldfastError | null = null;
  let draining: Promise<void> | null = null;
  let { file, bytes } = await writeWhole(path, state);

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
        failure = new HoldfastError("STORE_ERROR", "the bridge's journal can't be written", { cause });
        for (const waiting of [...group, ...queue.splice(0)]) waiting.reject(failure);
        return;
      }
      for (const { record, resolve } of group) {
        applyRecord(state, record);
        if (record.t === "event") for (const run of listeners) run(record.entry);
        resolve();
      }
      if (bytes > COMPACT_BYTES && state.open.size === 0 && queue.length === 0) await compact();
    }
  }

  async function compact(): Promise<void> {
    if (!canCompact(state)) return;
    const old = file;
    ({ file, bytes } = await writeWhole(path, state));
    await old.close();
  }

  return {
    state,
    async append(event) {
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
      if (fence < state.fence) {
        throw new HoldfastError(
          "FENCED",
          `fence ${fence} is lower than ${state.fence}, which was seen before`,
        );
      }
      if (fence > state.fence) await enqueue({ t: "fence", fence });
    },
    onDurable(run) {
      listeners.push(run);
    },
    async close() {
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
  const reading = readRecords(bytes);
  const state = emptyState(`journal-${randomUUID()}`);
  if (!reading.isDamaged && reading.records[0]?.t === "journal") {
    for (const record of reading.records) applyRecord(state, record);
    if (reading.wholeBytes < bytes.length) {
      log.warn("torn tail of the journal dropped", { bytes: bytes.length - reading.wholeBytes });
    }
    return beginLife(state);
  }
  const aside = `${path}.damaged-${Date.now()}`;
  await rename(path, aside);
  log.warn("damaged journal set aside; a new one begins", { file: aside });
  return beginLife(emptyState(`journal-${randomUUID()}`));
}

function beginLife(state: JournalState): JournalState {
  applyRecord(state, { t: "life", epoch: state.epoch + 1 });
  return state;
}

/** Writes the state as a whole file beside the old one, then replaces it: old or new, never cut. */
async function writeWhole(path: string, state: JournalState): Promise<{ file: FileHandle; bytes: number }> {
  if (!canCompact(state)) return appendLife(path, state);
  const chunk = Buffer.from(compactRecords(state).map(encodeRecord).join(""));
  const temporary = join(dirname(path), `.journal-${randomUUID()}`);
  const file = await open(temporary, "a", 0o600);
  await file.appendFile(chunk);
  await file.sync();
  await rename(temporary, path);
  await syncDirectory(dirname(path));
  return { file, bytes: chunk.length };
}

/** An open turn's acceptance is acknowledged: keep the file, cut its torn tail, and note the new life. */
async function appendLife(path: string, state: JournalState): Promise<{ file: FileHandle; bytes: number }> {
  const reading = readRecords(await readFile(path));
  const file = await open(path, "a", 0o600);
  await file.truncate(reading.wholeBytes);
  const chunk = Buffer.from(encodeRecord({ t: "life", epoch: state.epoch }));
  await file.appendFile(chunk);
  await file.sync();
  return { file, bytes: reading.wholeBytes + chunk.length };
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
