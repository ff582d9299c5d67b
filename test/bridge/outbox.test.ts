import fc from "fast-check";
import { expect, test } from "vitest";
import { createOutbox, type Outbox } from "../../bridge/outbox.ts";
import { decode, encodeAll } from "../../protocol/codec.ts";
import type { NumberedEvent } from "../../protocol/events.ts";
import { deltaCost, type Frame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { AT, EVENTS } from "../support/samples.ts";

const FRAME_CHARS = 256 * 1024;
const IN_FLIGHT = 1024;

/** A journal and running turns, as an outbox sees them. */
class Source {
  readonly events: NumberedEvent[] = [];
  readonly texts = new Map<string, string>();
  acked = 0;
  #head = 0;

  readonly outbox: Outbox = createOutbox({
    unacked: () => this.events,
    textOf: (turn, part) => this.texts.get(`${turn} ${part}`) ?? "",
  });

  append(count = 1): void {
    for (let n = 0; n < count; n += 1) {
      this.#head += 1;
      this.events.push({ seq: this.#head, at: AT, event: EVENTS["turn.delivered"] });
    }
  }

  /** The end of turn t-1 is in the journal. */
  end(): void {
    this.append();
    const last = this.events.at(-1);
    if (last !== undefined) last.event = { ...EVENTS["turn.ended"], turn: "t-1" };
  }

  acknowledge(seq: number): void {
    this.outbox.acknowledged(seq);
    this.acked = Math.max(this.acked, seq);
    while (this.events[0] !== undefined && this.events[0].seq <= this.acked) this.events.shift();
  }

  /** Puts text into a part at a place, as a turn's output does. */
  write(part: string, from: number, text: string, turn = "t-1"): void {
    const before = this.texts.get(`${turn} ${part}`) ?? "";
    this.texts.set(`${turn} ${part}`, before.slice(0, from) + text);
    this.outbox.touch(turn, part, from);
  }

  withdraw(part: string, turn = "t-1"): void {
    this.texts.delete(`${turn} ${part}`);
    this.outbox.touch(turn, part, 0);
  }
}

/** What a controller makes of the frames; a gap, a repetition or a delta that does not fit is an error. */
class Receiver {
  applied = 0;
  readonly parts = new Map<string, string>();
  /** Of this link. */
  consumedBytes = 0;

  take(frames: readonly Frame[]): void {
    // Over the wire, so that half a surrogate pair would show.
    for (const frame of encodeAll(frames).flatMap(decode)) {
      if (frame.kind === "event") {
        if (frame.entry.seq !== this.applied + 1)
          throw new Error(`event ${frame.entry.seq} after ${this.applied}`);
        this.applied = frame.entry.seq;
      } else if (frame.kind === "delta" || frame.kind === "snapshot") {
        const key = `${frame.turn} ${frame.part}`;
        const before = frame.kind === "snapshot" ? "" : (this.parts.get(key) ?? "");
        if (frame.kind === "delta" && frame.offset !== before.length) {
          throw new Error(`delta at ${frame.offset}, the part has ${before.length}`);
        }
        this.parts.set(key, before + frame.text);
        this.consumedBytes += deltaCost(frame);
      } else throw new Error(`frame ${frame.kind}`);
    }
  }
}

function kinds(frames: readonly Frame[]): string[] {
  return frames.map(({ kind }) => kind);
}

test("nothing goes out before a link was taken over, and nothing after it has closed", () => {
  const source = new Source();
  source.append();
  source.write("p", 0, "text");
  expect(source.outbox.flush()).toEqual([]);
  source.outbox.open(0);
  expect(kinds(source.outbox.flush())).toEqual(["snapshot", "event"]);
  source.append();
  source.outbox.close();
  expect(source.outbox.flush()).toEqual([]);
});

test("events go out once, in order, from the controller's cursor on", () => {
  const source = new Source();
  source.append(5);
  source.outbox.open(2);
  const seqs = (frames: Frame[]) =>
    frames.flatMap((frame) => (frame.kind === "event" ? [frame.entry.seq] : []));
  expect(seqs(source.outbox.flush())).toEqual([3, 4, 5]);
  expect(source.outbox.flush()).toEqual([]);
  source.append();
  expect(seqs(source.outbox.flush())).toEqual([6]);
});

test("a reconnect sends again what was not applied, and nothing that was", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.append(4);
  source.outbox.open(0);
  receiver.take(source.outbox.flush().slice(0, 2));
  source.outbox.close();
  source.append();
  source.outbox.open(receiver.applied);
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(5);
});

test("an acknowledgement of what was sent costs no event behind it", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.append(3);
  source.outbox.open(0);
  receiver.take(source.outbox.flush());
  source.acknowledge(3);
  source.append(2);
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(5);
});

test("at most 1024 events are on their way; an acknowledgement lets the next ones out", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.append(3000);
  source.outbox.open(0);
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(IN_FLIGHT);
  expect(source.outbox.flush()).toEqual([]);
  source.acknowledge(1000);
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(1000 + IN_FLIGHT);
  source.acknowledge(receiver.applied);
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(3000);
});

test("text goes out as deltas with their offsets", () => {
  const source = new Source();
  source.outbox.open(0);
  source.write("p", 0, "Größe ");
  source.write("p", 6, "🦑");
  const first = source.outbox.flush();
  expect(first).toEqual([{ kind: "delta", turn: "t-1", part: "p", offset: 0, text: "Größe 🦑" }]);
  source.write("p", 8, "!");
  expect(source.outbox.flush()).toEqual([{ kind: "delta", turn: "t-1", part: "p", offset: 8, text: "!" }]);
});

test("a touch without new text sends nothing", () => {
  const source = new Source();
  source.outbox.open(0);
  source.write("p", 0, "text");
  source.outbox.flush();
  source.outbox.touch("t-1", "p", 4);
  expect(source.outbox.flush()).toEqual([]);
});

test("text that was changed before its end is replaced whole; a withdrawn part becomes empty", () => {
  const source = new Source();
  source.outbox.open(0);
  source.write("p", 0, "one two");
  source.outbox.flush();
  source.write("p", 4, "three");
  expect(source.outbox.flush()).toEqual([{ kind: "snapshot", turn: "t-1", part: "p", text: "one three" }]);
  source.withdraw("p");
  expect(source.outbox.flush()).toEqual([{ kind: "snapshot", turn: "t-1", part: "p", text: "" }]);
});

test("after a reconnect each part of a running turn comes as a snapshot, those of a turn whose end took effect not at all", () => {
  const source = new Source();
  source.outbox.open(0);
  source.write("p", 0, "running");
  source.write("q", 0, "over", "t-2");
  source.outbox.flush();
  source.outbox.close();
  source.write("p", 7, " on");
  source.outbox.forget("t-2");
  source.outbox.open(0);
  expect(source.outbox.flush()).toEqual([{ kind: "snapshot", turn: "t-1", part: "p", text: "running on" }]);
});

test("a turn's end, and all behind it, waits for its text that the window holds back", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.outbox.open(0);
  source.write("p", 0, "x".repeat(2 * LIMITS.windowBytes));
  receiver.take(source.outbox.flush());
  source.append();
  source.end();
  source.append();
  // What the runner does: its texts are no longer to be had after this.
  source.outbox.forget("t-1");
  source.texts.clear();
  receiver.take(source.outbox.flush());
  expect(receiver.applied).toBe(1);
  for (let n = 0; n < 20; n += 1) {
    source.outbox.consumed(receiver.consumedBytes);
    receiver.take(source.outbox.flush());
  }
  expect(receiver.parts.get("t-1 p")?.length).toBe(2 * LIMITS.windowBytes);
  expect(receiver.applied).toBe(3);
});

test("law 10: a turn that ended with text on its way has it whole on the next link, and before its end", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.outbox.open(0);
  source.write("p", 0, "sent and lost, ");
  source.outbox.flush();
  source.write("p", 15, "never sent");
  source.end();
  source.outbox.close();
  source.outbox.forget("t-1");
  source.texts.clear();
  source.outbox.open(0);
  receiver.take(source.outbox.flush());
  expect(receiver.parts.get("t-1 p")).toBe("sent and lost, never sent");
  expect(receiver.applied).toBe(1);
  source.acknowledge(1);
  source.outbox.close();
  source.outbox.open(1);
  expect(source.outbox.flush()).toEqual([]);
});

test("an end that had taken effect when its link broke costs no text on the next one", () => {
  const source = new Source();
  source.outbox.open(0);
  source.write("p", 0, "text");
  source.end();
  source.outbox.forget("t-1");
  source.outbox.flush();
  source.outbox.close();
  source.outbox.open(1);
  expect(source.outbox.flush()).toEqual([]);
});

test("a closed window makes text coalesce; events pass it", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.outbox.open(0);
  source.write("p", 0, "x".repeat(2 * LIMITS.windowBytes));
  receiver.take(source.outbox.flush());
  const held = receiver.parts.get("t-1 p")?.length ?? 0;
  expect(held).toBeLessThanOrEqual(LIMITS.windowBytes + FRAME_CHARS);
  for (let n = 0; n < 1000; n += 1) source.write("q", n, "y");
  source.append();
  expect(kinds(source.outbox.flush())).toEqual(["event"]);
  source.outbox.consumed(receiver.consumedBytes);
  const next = source.outbox.flush();
  receiver.take(next);
  source.outbox.consumed(receiver.consumedBytes);
  receiver.take(source.outbox.flush());
  expect(receiver.parts.get("t-1 p")).toBe(source.texts.get("t-1 p"));
  expect(receiver.parts.get("t-1 q")).toBe("y".repeat(1000));
  // The thousand touches of the second part went out as one frame.
  expect(
    [...next, ...source.outbox.flush()].filter((f) => "part" in f && f.part === "q").length,
  ).toBeLessThan(2);
});

test("a long part takes several frames, and no frame cuts a surrogate pair", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.outbox.open(0);
  source.write("p", 0, `a${"🦑".repeat(FRAME_CHARS)}`);
  const frames = source.outbox.flush();
  expect(frames.length).toBeGreaterThan(1);
  for (const frame of frames) if (frame.kind === "delta") expect(frame.text.isWellFormed()).toBe(true);
  receiver.take(frames);
  source.outbox.consumed(receiver.consumedBytes);
  receiver.take(source.outbox.flush());
  expect(receiver.parts.get("t-1 p")).toBe(source.texts.get("t-1 p"));
});

test("half a surrogate pair at the end of a part waits for its other half", () => {
  const source = new Source();
  const receiver = new Receiver();
  source.outbox.open(0);
  source.write("p", 0, "a\ud83e");
  receiver.take(source.outbox.flush());
  expect(receiver.parts.get("t-1 p")).toBe("a");
  expect(source.outbox.flush()).toEqual([]);
  source.write("p", 2, "\udd91b");
  receiver.take(source.outbox.flush());
  expect(receiver.parts.get("t-1 p")).toBe("a🦑b");
});

test("whatever order things happen in, the receiver ends with the source's texts and each event once", () => {
  const part = fc.constantFrom("p", "q", "r");
  // Pieces of a text with pairs, cut anywhere, and long ones that close the window.
  const piece = fc.oneof(
    fc.nat(5).map((at) => "a🦑ß".slice(0, at)),
    fc.nat(5).map((at) => "a🦑ß".slice(at)),
    fc.integer({ min: 1, max: 700_000 }).map((count) => "🦑".repeat(count / 2)),
  );
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("write" as const), part, back: fc.nat(6), text: piece }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("withdraw" as const), part }) },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant("append" as const), count: fc.integer({ min: 1, max: 900 }) }),
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constant("flush" as const), arrives: fc.boolean() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("ack" as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("consume" as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("reopen" as const), away: fc.boolean() }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.boolean(), (steps, hasEnded) => {
      const source = new Source();
      const receiver = new Receiver();
      let isOpen = false;
      // What was lost on a link is lost with all that comes behind it, until the next link.
      let isBroken = false;
      const reopen = () => {
        source.outbox.open(receiver.applied);
        receiver.consumedBytes = 0;
        isOpen = true;
        isBroken = false;
      };
      const flush = (arrives: boolean) => {
        const frames = source.outbox.flush();
        if (!isOpen) expect(frames).toEqual([]);
        if (frames.length > 0 && !arrives) isBroken = true;
        if (!isBroken) receiver.take(frames);
        return frames.length;
      };
      for (const one of steps) {
        if (one.do === "write") {
          const length = source.texts.get(`t-1 ${one.part}`)?.length ?? 0;
          source.write(one.part, Math.max(0, length - one.back), one.text);
        } else if (one.do === "withdraw") source.withdraw(one.part);
        else if (one.do === "append") source.append(one.count);
        else if (one.do === "flush") flush(one.arrives);
        else if (one.do === "ack" && isOpen && !isBroken) source.acknowledge(receiver.applied);
        else if (one.do === "consume" && isOpen && !isBroken) source.outbox.consumed(receiver.consumedBytes);
        else if (one.do === "reopen") {
          source.outbox.close();
          isOpen = false;
          if (!one.away) reopen();
        }
      }
      source.outbox.close();
      // Every text has an end that can travel.
      for (const name of ["p", "q", "r"]) {
        const text = source.texts.get(`t-1 ${name}`);
        if (text !== undefined) source.write(name, 0, text.toWellFormed());
      }
      if (hasEnded) {
        source.end();
        source.outbox.forget("t-1");
      }
      reopen();
      while (flush(true) > 0) {
        source.outbox.consumed(receiver.consumedBytes);
        source.acknowledge(receiver.applied);
      }
      source.acknowledge(receiver.applied);
      expect(source.events).toEqual([]);
      for (const name of ["p", "q", "r"]) {
        expect(receiver.parts.get(`t-1 ${name}`) ?? "").toBe(source.texts.get(`t-1 ${name}`) ?? "");
      }
    }),
    { numRuns: 150 },
  );
});
