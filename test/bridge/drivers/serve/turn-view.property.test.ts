// Laws of the view over orders that no recording happened to show.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import { type Cli, on } from "./native.ts";
import { capturedTurns, replay } from "./replay.ts";

const root = "ses_r";
const own = "msg_own";
const turn = { root, own };
const RECORDED: Array<[Cli, string]> = [
  ["opencode", "turn-plain"],
  ["opencode", "fail-400"],
  ["opencode", "fail-overflow"],
  ["opencode", "stream-cut"],
  ["opencode", "task-child-perm-reject"],
  ["opencode", "abort-stream"],
  ["opencode", "retry-abort"],
  ["kilo", "turn-plain"],
  ["kilo", "task-abort-root"],
  ["kilo", "stream-cut"],
];

/** One step of a turn: a message of the assistant with text parts, each in pieces. */
const step = fc.record({
  parts: fc.array(fc.array(fc.string({ unit: "grapheme", maxLength: 6 }), { maxLength: 4 }), {
    maxLength: 3,
  }),
  /** Where among the message's own events its role comes; the last of them completes it. */
  roleAt: fc.nat(20),
});

test("P6: wherever a role comes, the answer is every assistant part once, and never the user's text", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 4 }), fc.nat(20), (steps, ownAt) => {
      const events: NativeEvent[] = [];
      const wanted: string[] = [];
      steps.forEach(({ parts, roleAt }, index) => {
        const message = `msg_${index}`;
        const ofMessage = parts.flatMap((pieces, number) => {
          const id = `prt_${index}_${number}`;
          const text = pieces.join("");
          if (text !== "") wanted.push(text);
          return [
            on.text(root, message, id, ""),
            ...pieces.map((piece) => on.delta(root, message, id, piece)),
            on.text(root, message, id, text, true),
          ];
        });
        ofMessage.splice(roleAt % (ofMessage.length + 1), 0, on.assistant(root, message, { parent: own }));
        events.push(
          ...ofMessage,
          on.assistant(root, message, {
            parent: own,
            done: true,
            finish: index < steps.length - 1 ? "tool-calls" : "stop",
          }),
        );
      });
      const first = [on.text(root, own, "prt_own", "the user's own text", true), on.user(root, own)];
      const position = ownAt % (events.length + 1);
      events.splice(position, 0, ...first);
      const { parts, ends } = replay([...events, on.busy(root), on.idle(root)], turn);
      expect(parts).toEqual(wanted);
      expect(ends.map(({ end }) => end.status)).toEqual(["completed"]);
    }),
  );
});

/** Events of strangers: other sessions, their children, and no session at all. */
const foreign: fc.Arbitrary<NativeEvent> = fc.oneof(
  ...["ses_other", "ses_unknown"].flatMap((session) => [
    fc.constant(on.idle(session)),
    fc.constant(on.busy(session)),
    fc.constant(on.status(session, "idle")),
    fc.constant(on.status(session, "retry", { attempt: 1, message: "theirs", next: 1 })),
    fc.constant(on.error(session, "APIError", "theirs")),
    fc.constant(on.created(`${session}_child`, session)),
    fc.constant(on.busy(`${session}_child`)),
    fc.constant(on.user(session, `${session}_user`)),
    fc.constant(on.assistant(session, `${session}_answer`, { error: "APIError", done: true })),
    fc.constant(on.text(session, `${session}_answer`, `${session}_part`, "theirs", true)),
    fc.constant(on.delta(session, `${session}_answer`, `${session}_part`, "theirs")),
    fc.constant(on.tool(session, `${session}_answer`, "call_0", "running")),
    fc.constant(on.turnOpen(session)),
    fc.constant(on.turnClose(session, "interrupted")),
    fc.constant(on.removed(session, `${session}_answer`)),
  ]),
  fc.constant(on.error(undefined, "UnknownError", "of nobody")),
  fc.constant(on.created("ses_orphan")),
);

test("P7: events of other sessions, anywhere in a recorded stream, change nothing", () => {
  for (const [cli, name] of RECORDED) {
    const recorded = capturedTurns(cli, name);
    const its = { root: recorded.root, own: recorded.users[0] ?? "", isBracketed: cli === "kilo" };
    const plain = replay(recorded.events, its);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(200), foreign), { maxLength: 12 }), (injected) => {
        const mixed = [...recorded.events];
        for (const [at, event] of injected) mixed.splice(at % (mixed.length + 1), 0, event);
        const { changes, parts } = replay(mixed, its);
        expect(changes).toEqual(plain.changes);
        expect(parts).toEqual(plain.parts);
      }),
      { numRuns: 40 },
    );
  }
});

test("what earlier turns left behind, in any order before the turn's own message, changes its end in nothing", () => {
  const stale: fc.Arbitrary<NativeEvent> = fc.constantFrom(
    on.idle(root),
    on.busy(root),
    on.status(root, "idle"),
    on.status(root, "retry", { attempt: 2, message: "old", next: 1 }),
    on.error(root, "MessageAbortedError"),
    on.user(root, "msg_old"),
    on.assistant(root, "msg_old_a", { parent: "msg_old", error: "MessageAbortedError", done: true }),
    on.assistant(root, "msg_unseen", { parent: "msg_foreign" }),
    on.text(root, "msg_old_a", "prt_old", "old text", true),
    on.delta(root, "msg_old_a", "prt_old", "old text"),
    on.created("ses_old_child", root),
    on.busy("ses_old_child"),
  );
  const ordinary = [
    on.user(root, own),
    on.text(root, own, "prt_own", "the user's", true),
    on.busy(root),
    on.assistant(root, "msg_a", { parent: own }),
    on.text(root, "msg_a", "prt_a", "answer", true),
    on.assistant(root, "msg_a", { parent: own, done: true, finish: "stop" }),
    on.busy(root),
    on.idle(root),
  ];
  const earlier = ["msg_old", "msg_old_a"];
  const plain = replay(ordinary, { ...turn, earlier });
  fc.assert(
    fc.property(fc.array(stale, { maxLength: 15 }), (before) => {
      const { ends, parts } = replay([...before, ...ordinary], { ...turn, earlier });
      expect(parts).toEqual(plain.parts);
      expect(ends).toEqual([{ at: before.length + ordinary.length - 1, end: plain.ends[0]?.end }]);
    }),
  );
});

test("no beginning of a recorded turn is its end", () => {
  for (const [cli, name] of RECORDED) {
    const { events, root: session, users } = capturedTurns(cli, name);
    const its = { root: session, own: users[0] ?? "", isBracketed: cli === "kilo" };
    const [end] = replay(events, its).ends;
    expect(end, name).toBeDefined();
    for (let length = 0; length <= (end?.at ?? 0); length += 1) {
      expect(replay(events.slice(0, length), its).ends, `${name}, first ${length}`).toEqual([]);
    }
  }
});

const anything: fc.Arbitrary<NativeEvent> = fc
  .tuple(fc.constantFrom(root, "ses_c", "ses_g"), fc.constantFrom("m1", "m2", own), fc.nat(15))
  .map(([session, message, kind]) => {
    switch (kind) {
      case 0:
        return on.busy(session);
      case 1:
        return on.idle(session);
      case 2:
        return on.status(session, "idle");
      case 3:
        return on.status(session, "retry", { attempt: 1 });
      case 4:
        return on.error(session, "APIError");
      case 5:
        return on.created(session, session === "ses_g" ? "ses_c" : root);
      case 6:
        return on.assistant(session, message === own ? "m1" : message);
      case 7:
        return on.assistant(session, message === own ? "m1" : message, { done: true, finish: "stop" });
      case 8:
        return on.text(session, message, `prt_${message}`, message === own ? "the user's" : "theirs");
      case 9:
        return on.delta(session, message, `prt_${message}`, message === own ? "the user's" : "x");
      case 10:
        return on.tool(session, message, "call_0", "running");
      case 11:
        return on.turnOpen(session);
      case 12:
        return on.turnClose(session, "superseded");
      case 13:
        return on.removed(session, message);
      case 14:
        return on.partRemoved(session, message, `prt_${message}`);
      default:
        return on.user(root, own);
    }
  });

test("whatever the order: at most one end, nothing after it, and never a word of the user", () => {
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 60 }), fc.boolean(), (events, isBracketed) => {
      const { changes, ends, parts, view } = replay(events, { ...turn, isBracketed });
      expect(ends.length).toBeLessThanOrEqual(1);
      expect(changes.filter(({ kind }) => kind === "own_event").length).toBeLessThanOrEqual(1);
      if (ends.length === 1) {
        expect(changes.at(-1)?.kind).toBe("native_end");
        expect(view.busyDescendants()).toEqual([]);
      }
      expect(parts.join("")).not.toContain("the user's");
    }),
    { numRuns: 500 },
  );
});

test("children that come late, before the root's last idle, hold the end until they are quiet", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("ses_1", "ses_2", "ses_3"), { minLength: 1, maxLength: 3 }),
      fc.nat(5),
      (children, at) => {
        const names = [...new Set(children)];
        const events = [
          on.user(root, own),
          on.busy(root),
          on.assistant(root, "msg_a", { parent: own }),
          on.assistant(root, "msg_a", { parent: own, done: true, finish: "stop" }),
        ];
        const born = names.flatMap((name, index) => [
          on.created(name, index === 0 ? root : (names[index - 1] ?? root)),
          on.busy(name),
        ]);
        events.splice(1 + (at % events.length), 0, ...born);
        const { ends } = replay([...events, on.idle(root), ...names.map((name) => on.idle(name))], turn);
        expect(ends.map((end) => end.at)).toEqual([events.length + names.length]);
      },
    ),
  );
});
