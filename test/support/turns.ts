/** A turn as a test reads it: everything that its handle tells, kept, and waits with limits for what is to come. */
import { onTestFinished } from "vitest";
import type { TurnHandle } from "../../controller/turn-handle.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { logTails, type TestHost } from "./host.ts";
import { ownTexts } from "./model/additions.ts";
import type { ModelRequest } from "./model/records.ts";
import { until, within } from "./until.ts";

/** Longer than any turn of these tests on a loaded machine; shorter than a test's own limit. */
const SETTLE_MS = 60_000;
const EVENT_MS = 30_000;

type EventOf<T extends ControlEvent["type"]> = Extract<ControlEvent, { type: T }>;

export interface Followed {
  readonly handle: TurnHandle;
  readonly events: ControlEvent[];
  /** The text as a reader saw it arrive, part by part. */
  seen(): string;
  /** The events of one type so far. */
  all<T extends ControlEvent["type"]>(type: T): Array<EventOf<T>>;
  /** The first event of the type that fits, or an error when none comes. */
  heard<T extends ControlEvent["type"]>(type: T, fits?: (event: EventOf<T>) => boolean): Promise<EventOf<T>>;
  /** The settlement, when the reader has also seen its end. */
  end(): Promise<Settlement>;
}

export function follow(handle: TurnHandle): Followed {
  const events: ControlEvent[] = [];
  const parts = new Map<string, string>();
  const read = (async () => {
    for await (const update of handle) {
      if (update.kind === "event") events.push(update.entry.event);
      if (update.kind !== "text") continue;
      parts.set(update.part, (parts.get(update.part) ?? "").slice(0, update.from) + update.text);
    }
  })();
  // A test that fails before it awaits the end must fail with its own error.
  read.catch(() => undefined);
  const all = <T extends ControlEvent["type"]>(type: T) =>
    events.filter((event): event is EventOf<T> => event.type === type);
  return {
    handle,
    events,
    seen: () => [...parts.values()].join(""),
    all,
    heard: (type, fits = () => true) => until(`event ${type}`, () => all(type).find(fits), EVENT_MS),
    async end() {
      const settlement = await within(`the end of ${handle.id}`, handle.settlement, SETTLE_MS);
      await within(`the reader's end of ${handle.id}`, read, SETTLE_MS);
      return settlement;
    },
  };
}

/** One whole turn. */
export async function play(
  t: TestHost,
  member: string,
  text: string,
  limitMs = 0,
): Promise<Followed & { settlement: Settlement }> {
  const followed = follow(t.host.submit(member, text, { limitMs }));
  return { ...followed, settlement: await followed.end() };
}

/** The user's own texts in a request, oldest first, without what the CLI added; each part of a message for itself. */
export function userTexts(request: ModelRequest | undefined): string[] {
  return (request?.request?.rows ?? []).flatMap((row) => ownTexts(row));
}

/** Prints the bridges' last words when the running test fails. To be called behind the host's start: hooks run last in, first out. */
export function tellOnFailure(t: TestHost): void {
  onTestFinished(async ({ task }) => {
    if (task.result?.state !== "fail") return;
    process.stderr.write(await logTails(t));
    process.stderr.write(t.warnings.map((warning) => `warning: ${warning}\n`).join(""));
  });
}
