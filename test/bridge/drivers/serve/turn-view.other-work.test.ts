// The CLI starts work of its own in the root (a background task has ended, a wake-up): our message comes into the middle
// of it. Neither its text nor its end is our turn's. Orders as seen on Kilo 7.7.7 (queued behind) and OpenCode (joined).
import { expect, test } from "vitest";
import { on } from "./native.ts";
import { replay } from "./replay.ts";

const R = "ses_r";
const own = "msg_own";
const other = { parent: "msg_nobody" };

/** The other work's answer, open when our message comes, and its end. */
const otherEnds = [
  on.text(R, "m1", "p1", "Nobody asked.", true),
  on.assistant(R, "m1", { ...other, done: true, finish: "stop" }),
  on.idle(R),
];
const ours = [
  on.assistant(R, "m2", { parent: own }),
  on.text(R, "m2", "p2", "Ours.", true),
  on.assistant(R, "m2", { parent: own, done: true, finish: "stop" }),
];

test("queued behind it: its idle and its closed bracket are not the turn's end, its text not the answer", () => {
  const events = [
    on.assistant(R, "m1", other),
    on.user(R, own),
    ...otherEnds,
    on.idle(R),
    on.turnClose(R),
    on.turnOpen(R),
    on.busy(R),
    ...ours,
    on.idle(R),
    on.turnClose(R),
  ];
  for (const isAtOtherWork of [true, false]) {
    const { ends, parts, changes } = replay(events, { root: R, own, isBracketed: true, isAtOtherWork });
    const told = changes.flatMap((change) => (change.kind === "other_work" ? [change.state] : []));
    expect(told).toEqual(["started", "ended"]);
    expect(ends.map(({ at, end }) => [at, end.status])).toEqual([[events.length - 1, "completed"]]);
    expect(parts).toEqual(["Ours."]);
  }
});

test("its answer had ended already, and only its idle comes after our message: that is not the turn's end", () => {
  const events = [
    on.user(R, own),
    on.busy(R),
    on.idle(R),
    on.turnClose(R),
    on.turnOpen(R),
    on.busy(R),
    ...ours,
  ];
  const turn = { root: R, own, isBracketed: true, isAtOtherWork: true };
  expect(replay(events, turn).ends).toEqual([]);
  const { ends, parts } = replay([...events, on.idle(R), on.turnClose(R)], turn);
  expect(ends).toHaveLength(1);
  expect(parts).toEqual(["Ours."]);
});

test("joined to it: one busy period for both, one idle, and the answer to our message alone is the turn's", () => {
  const events = [
    on.busy(R),
    on.assistant(R, "m1", other),
    on.user(R, own),
    on.busy(R),
    ...otherEnds.slice(0, 2),
    ...ours,
    on.idle(R),
  ];
  const { ends, parts } = replay(events, { root: R, own });
  expect(ends.map(({ end }) => end.status)).toEqual(["completed"]);
  expect(parts).toEqual(["Ours."]);
});

test("what the CLI puts in behind our message is answered for us: a compaction keeps the turn's answer", () => {
  const events = [
    on.user(R, own),
    on.busy(R),
    on.user(R, "msg_behind"),
    on.assistant(R, "m2", { parent: "msg_behind" }),
    on.text(R, "m2", "p2", "After it.", true),
    on.assistant(R, "m2", { parent: "msg_behind", done: true, finish: "stop" }),
    on.idle(R),
  ];
  const { ends, parts } = replay(events, { root: R, own });
  expect(ends).toHaveLength(1);
  expect(parts).toEqual(["After it."]);
});
