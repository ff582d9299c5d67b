// Kilo opens and closes each turn by events of its own: the end needs the closed bracket too.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import { on } from "./native.ts";
import { capturedTurns, replay } from "./replay.ts";

const R = "ses_r";
const own = "msg_own";
const kilo = { root: R, own, isBracketed: true };

const started = [on.user(R, own), on.turnOpen(R), on.busy(R)];
const answered = [
  on.assistant(R, "m2", { parent: own }),
  on.text(R, "m2", "p1", "answer", true),
  on.assistant(R, "m2", { parent: own, done: true, finish: "stop" }),
];

const endsOf = (events: NativeEvent[], turn = kilo) =>
  replay(events, turn).ends.map(({ at, end }) => [at, end.status]);

test("an idle without a closed bracket settles nothing; the close that follows does", () => {
  const events = [...started, ...answered, on.idle(R)];
  expect(endsOf(events)).toEqual([]);
  expect(endsOf([...events, on.turnClose(R)])).toEqual([[events.length, "completed"]]);
});

test("a closed bracket without an idle settles nothing: an abort closes first and is idle afterwards", () => {
  const events = [...started, ...answered, on.turnClose(R, "interrupted")];
  expect(endsOf(events)).toEqual([]);
  expect(endsOf([...events, on.idle(R)])).toEqual([[events.length, "completed"]]);
});

test("an idle that is not the end is told as an expected one, so that a close which never comes is overdue", () => {
  const { changes } = replay([...started, ...answered, on.idle(R)], kilo);
  expect(changes.at(-1)).toEqual({ kind: "end_expected" });
});

test("brackets of children, of strangers, and of the turn before are not the turn's own", () => {
  const events = [
    on.turnClose(R),
    on.turnClose(R, "interrupted"),
    ...started,
    on.created("ses_c", R),
    on.turnOpen("ses_c"),
    on.busy("ses_c"),
    ...answered,
    on.idle("ses_c"),
    on.turnClose("ses_c"),
    on.turnClose("ses_other"),
    on.idle(R),
  ];
  expect(endsOf(events)).toEqual([]);
  expect(endsOf([...events, on.turnClose(R)])).toHaveLength(1);
});

test("a bracket that closes while a child is at work waits for the child", () => {
  const events = [
    ...started,
    ...answered,
    on.created("ses_c", R),
    on.busy("ses_c"),
    on.idle(R),
    on.turnClose(R),
  ];
  expect(endsOf(events)).toEqual([]);
  expect(endsOf([...events, on.idle("ses_c")])).toEqual([[events.length, "completed"]]);
});

test("between two brackets, the first superseded and the second open, nothing is the end", () => {
  const { events, root, users } = capturedTurns("kilo", "second-prompt-while-busy");
  const close = events.findIndex((event) => event?.type === "session.turn.close");
  const turn = { root, own: users[0] ?? "", isBracketed: true };
  expect(replay(events.slice(0, close), turn).ends).toEqual([]);
  // Our own message has its answer by then: what follows belongs to the message that superseded it.
  const { ends, parts } = replay(events, turn);
  expect(ends.map(({ at }) => at)).toEqual([close]);
  expect(parts).toEqual(["aaaa bbbb cccc dddd"]);
});

test("a turn that was superseded in the middle of its tools has had no last word: it is not completed", () => {
  const { events, root, users } = capturedTurns("kilo", "second-prompt-while-busy");
  const [, , third = ""] = users;
  const from = events.findIndex(
    (event) => event?.type === "message.updated" && event.properties.info.id === third,
  );
  const { ends } = replay(events.slice(from), { root, own: third, isBracketed: true });
  expect(ends).toHaveLength(1);
  expect(ends[0]?.end).toMatchObject({ status: "failed", error: { name: "TurnSuperseded" } });
});

test("a reject ends the turn with its tools as the last word, and is completed as the CLI says", () => {
  const { events, root, users } = capturedTurns("kilo", "perm-reject");
  const { ends } = replay(events, { root, own: users[0] ?? "", isBracketed: true });
  expect(ends[0]?.end).toMatchObject({ status: "completed", error: null });
});

test("a turn that opens again goes on: only the last bracket counts", () => {
  const events = [
    ...started,
    on.assistant(R, "m1", { parent: own, done: true, finish: "tool-calls" }),
    on.turnClose(R, "superseded"),
    on.turnOpen(R),
    on.busy(R),
    on.idle(R),
  ];
  expect(endsOf(events)).toEqual([]);
  expect(endsOf([...events, on.turnClose(R)])).toHaveLength(1);
});

test("where the order of idle and close differs, the end is at the later of them, and the same", () => {
  const last = fc.shuffledSubarray([on.status(R, "idle"), on.idle(R), on.turnClose(R)], {
    minLength: 3,
  });
  fc.assert(
    fc.property(last, fc.nat(), (tail, at) => {
      const events = [...started, ...answered, ...tail];
      // Noise in between changes nothing.
      events.splice(started.length + (at % 3), 0, on.turnOpen("ses_other"), on.turnClose("ses_other"));
      const ends = endsOf(events);
      expect(ends).toHaveLength(1);
      const closeAt = events.findIndex(
        (event) => event.type === "session.turn.close" && event.properties.sessionID === R,
      );
      expect(Number(ends[0]?.[0])).toBeGreaterThanOrEqual(closeAt);
    }),
  );
});

test("without brackets of its own a CLI is not waited for to close one", () => {
  expect(
    endsOf([on.user(R, own), on.busy(R), ...answered, on.idle(R)], { ...kilo, isBracketed: false }),
  ).toHaveLength(1);
});
