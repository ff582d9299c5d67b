/**
 * A turn as its caller sees it: an async iterable of updates, and one settlement. A slow reader makes text coalesce; it
 * never holds the turn back and never grows memory without bound.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { NumberedEvent } from "../protocol/events.ts";
import type { FrameOf } from "../protocol/frame.ts";
import type { Settlement } from "../protocol/settlement.ts";

/** What a reader gets. Text is of the part so far: `from` is where it starts, in UTF-16 units; what was beyond is replaced. */
export type TurnUpdate =
  | { kind: "text"; part: string; from: number; text: string }
  | { kind: "event"; entry: NumberedEvent }
  | { kind: "settled"; settlement: Settlement };

/** Updates waiting for one reader. Beyond: its iteration ends with OVERLOADED; the settlement is still to be had. */
const WAITING_UPDATES = 10_000;

export interface TurnHandle extends AsyncIterable<TurnUpdate> {
  readonly id: string;
  readonly member: string;
  readonly number: number;
  /** Rejects with STOPPED when this controller closes first; the turn itself goes on. */
  readonly settlement: Promise<Settlement>;
  /** Asks for the turn's end. The settlement tells what became of it. */
  abort(): Promise<void>;
}

/** The handle, and how the host feeds it. */
export interface LiveTurn {
  readonly handle: TurnHandle;
  text(frame: FrameOf<"delta"> | FrameOf<"snapshot">): void;
  event(entry: NumberedEvent): void;
  settle(settlement: Settlement): void;
  fail(error: HoldfastError): void;
}

export function createLiveTurn(options: {
  id: string;
  member: string;
  number: number;
  abort(): Promise<void>;
}): LiveTurn {
  const readers = new Set<Reader>();
  const done = Promise.withResolvers<Settlement>();
  // Not every caller awaits the settlement; a rejection that nobody looks at must not end the process.
  done.promise.catch(() => undefined);
  let end: { settlement: Settlement } | { error: HoldfastError } | null = null;

  function push(update: TurnUpdate): void {
    for (const reader of readers) reader.push(update);
  }

  function finish(result: NonNullable<typeof end>): void {
    if (end !== null) return;
    end = result;
    if ("settlement" in result) {
      push({ kind: "settled", settlement: result.settlement });
      done.resolve(result.settlement);
    } else {
      done.reject(result.error);
    }
    for (const reader of readers) reader.end("error" in result ? result.error : null);
  }

  const handle: TurnHandle = {
    id: options.id,
    member: options.member,
    number: options.number,
    settlement: done.promise,
    abort: options.abort,
    [Symbol.asyncIterator]() {
      const reader = createReader(() => readers.delete(reader));
      readers.add(reader);
      if (end !== null) {
        if ("settlement" in end) reader.push({ kind: "settled", settlement: end.settlement });
        reader.end("error" in end ? end.error : null);
      }
      return reader.iterator;
    },
  };

  return {
    handle,
    text(frame) {
      const from = frame.kind === "delta" ? frame.offset : 0;
      push({ kind: "text", part: frame.part, from, text: frame.text });
    },
    event: (entry) => push({ kind: "event", entry }),
    settle: (settlement) => finish({ settlement }),
    fail: (error) => finish({ error }),
  };
}

/** The handle of a turn that has ended: its iteration gives the settlement, and nothing is left to abort. */
export function endedTurn(turn: {
  id: string;
  member: string;
  number: number;
  settlement: Settlement;
}): TurnHandle {
  const abort = () => Promise.reject(new HoldfastError("ABORT_NO_TURN"));
  const made = createLiveTurn({ ...turn, abort });
  made.settle(turn.settlement);
  return made.handle;
}

interface Reader {
  push(update: TurnUpdate): void;
  end(error: HoldfastError | null): void;
  iterator: AsyncIterator<TurnUpdate>;
}

function createReader(onReturn: () => void): Reader {
  const waiting: TurnUpdate[] = [];
  const asleep: Array<() => void> = [];
  let ended: { error: HoldfastError | null } | null = null;

  function wakeUp(): void {
    for (const wake of asleep.splice(0)) wake();
  }

  async function next(): Promise<IteratorResult<TurnUpdate>> {
    for (;;) {
      const update = waiting.shift();
      if (update !== undefined) return { done: false, value: update };
      if (ended !== null) {
        onReturn();
        if (ended.error !== null) throw ended.error;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        asleep.push(resolve);
      });
    }
  }

  return {
    push(update) {
      if (ended !== null) return;
      const last = waiting.at(-1);
      if (
        update.kind === "text" &&
        last?.kind === "text" &&
        last.part === update.part &&
        last.from + last.text.length === update.from
      ) {
        waiting[waiting.length - 1] = { ...last, text: last.text + update.text };
      } else {
        waiting.push(update);
      }
      if (waiting.length > WAITING_UPDATES) {
        waiting.length = 0;
        ended = { error: new HoldfastError("OVERLOADED", "the reader of this turn is too slow") };
      }
      wakeUp();
    },
    end(error) {
      ended ??= { error };
      wakeUp();
    },
    iterator: {
      next,
      async return() {
        ended = { error: null };
        waiting.length = 0;
        onReturn();
        wakeUp();
        return { done: true, value: undefined };
      },
    },
  };
}
