// Laws 6 and 9 over random orders of one turn: the root, a child, a stranger, a ghost, a user who answers when it likes,
// a clock that moves in between, and a server that tells of its replies or does not.
import fc from "fast-check";
import { expect, test } from "vitest";
import { listPending } from "../../../../bridge/drivers/serve/turn-requests.ts";
import { HoldfastError } from "../../../../protocol/errors.ts";
import type { MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { on } from "./native.ts";
import { OWN, openBench, R, type TurnBench } from "./turn-bench.ts";

const C = "ses_c";
const X = "ses_theirs";
const USERS = "the user's own words";

type Act = (bench: TurnBench) => void;

/** What may be refused, and says so with a code; anything else is a fault. */
function attempt(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    expect(error.code).toMatch(/^REQUEST_/);
  }
}

/** Each thread keeps its own order; how they are mixed is chance. */
function threads(isKilo: boolean): Act[][] {
  const say =
    (...events: Array<ReturnType<typeof on.idle>>): Act =>
    ({ turn }) => {
      for (const event of events) turn.take(event);
    };
  const root: Act[] = [
    say(on.text(R, OWN, "prt_own", USERS, true)),
    say(on.user(R, OWN)),
    ...(isKilo ? [say(on.turnOpen(R))] : []),
    say(on.busy(R)),
    say(on.assistant(R, "m1", { parent: OWN })),
    say(on.tool(R, "m1", "call_1", "running")),
    ({ turn, api }) => turn.take(api.raise(R, "per_r", "call_1")),
    ({ turn, api }) => turn.take(api.ask(R, "que_r")),
    say(on.tool(R, "m1", "call_1", "completed")),
    say(on.text(R, "m1", "p1", "answer", true)),
    say(on.assistant(R, "m1", { parent: OWN, done: true, finish: "stop" })),
    say(on.idle(R)),
    ...(isKilo ? [say(on.turnClose(R))] : []),
  ];
  const child: Act[] = [
    ({ api }) => void api.parents.set(C, R),
    say(on.created(C, R)),
    say(on.busy(C)),
    say(on.text(C, "m_task", "prt_task", USERS, true)),
    ({ turn, api }) => turn.take(api.raise(C, "per_c", "call_1")),
    // In the list, and told by no event.
    ({ api }) => void api.raise(C, "per_listed"),
    ({ turn, api }) => turn.take(api.ask(C, "que_c")),
    ({ turn, api }) => turn.take(api.park(C, "net_1")),
    say(on.idle(C)),
  ];
  const stranger: Act[] = [
    ({ api }) => void api.parents.set(X, null),
    ({ turn, api }) => turn.take(api.raise(X, "per_x")),
    ({ turn, api }) => turn.take(api.ask(X, "que_x")),
    say(on.idle(X), on.error(X, "APIError"), on.turnClose(X), on.replied(X, "per_r")),
  ];
  const ghost: Act[] = [
    say(on.asked(R, "per_ghost")),
    say(on.question(C, "que_ghost")),
    say(on.replied(R, "per_ghost")),
  ];
  const user: Act[] = [R, C, X].flatMap((session) => [
    ({ turn }: TurnBench) => attempt(() => turn.answerQuestion(session, "que_r", [["blue"]])),
    ({ turn }: TurnBench) => attempt(() => turn.answerQuestion(session, "que_c", null)),
    ({ turn }: TurnBench) => attempt(() => turn.answerPermission(session, "per_r", "once")),
    ({ turn }: TurnBench) => attempt(() => turn.answerPermission(session, "per_c", "reject")),
    ({ turn }: TurnBench) => attempt(() => turn.answerPermission(session, "per_ghost", "once")),
    ({ turn }: TurnBench) => attempt(() => turn.answerQuestion(session, "que_x", null)),
  ]);
  // Told once more, or for the first time: what the list has already.
  const again: Act[] = [
    on.asked(R, "per_r", "call_1"),
    on.asked(C, "per_c", "call_1"),
    on.asked(C, "per_listed"),
    on.question(R, "que_r"),
  ].map(
    (event): Act =>
      ({ turn, api }) => {
        if ("id" in event.properties && api.raised.has(String(event.properties.id))) turn.take(event);
      },
  );
  return [root, child, stranger, ghost, user, again];
}

const STEPS = threads(true).reduce((sum, thread) => sum + thread.length, 0);

const world = fc.record({
  isKilo: fc.boolean(),
  isSilent: fc.boolean(),
  policy: fc.constantFrom<MemberPolicy["default"]>("allow", "deny", "ask"),
  order: fc.array(fc.nat(5), { minLength: STEPS, maxLength: STEPS * 2 }),
  /** Milliseconds that pass after each step. */
  pauses: fc.array(fc.constantFrom(0, 0, 0, 0, 150, 1500, 20_000), { minLength: STEPS, maxLength: STEPS }),
});

/** Takes from the threads as the order says; what is left over comes in turn. */
function mixed(parts: Act[][], order: readonly number[]): Act[] {
  const left = parts.map((thread) => [...thread]);
  const acts: Act[] = [];
  for (const at of order) {
    const act = left[at % left.length]?.shift();
    if (act !== undefined) acts.push(act);
  }
  return [...acts, ...left.flat()];
}

/** Every reply, with whether the turn had ended when it went out. */
async function play({ isKilo, isSilent, policy, order, pauses }: Awaited<ReturnType<typeof sample>>) {
  const bench = openBench({ isKilo, isSilent, policy: { default: policy, askLimitMs: 30_000 } });
  bench.api.raise(R, "per_ghost");
  bench.api.ask(C, "que_ghost");
  bench.turn.noteGhosts(await listPending(bench.api, "/w", 1000));
  let repliesAtEnd: number | null = null;
  for (const [at, act] of mixed(threads(isKilo), order).entries()) {
    act(bench);
    await bench.clock.elapse(pauses[at] ?? 0);
    if (bench.of("native_end").length > 0) repliesAtEnd ??= bench.api.replies().length;
  }
  // Nobody is at work any more, and every limit passes.
  await bench.clock.elapse(700_000);
  repliesAtEnd ??= bench.of("native_end").length > 0 ? bench.api.replies().length : null;
  const replies = bench.api.replies();
  bench.turn.close();
  await bench.clock.elapse(60_000);
  return { bench, replies, repliesAtEnd };
}

const sample = async () => fc.sample(world, 1)[0] ?? expect.unreachable();

test("P8, P12: one settlement, no reply after it, one reply a request, no stranger's, no word of the user", async () => {
  await fc.assert(
    fc.asyncProperty(world, async (choice) => {
      const { bench, replies, repliesAtEnd } = await play(choice);
      expect(bench.of("native_end")).toHaveLength(1);
      expect(bench.of("own_event")).toHaveLength(1);
      // What was already on its way when the end came may be counted in the same step; nothing comes later.
      expect(bench.api.replies()).toHaveLength(repliesAtEnd ?? -1);
      const counts = Map.groupBy(replies, (line) => line.split(" ").slice(0, 2).join(" "));
      for (const [what, lines] of counts) {
        expect(lines.length, what).toBe(1);
        expect(what).not.toMatch(/_x$|_ghost$/);
      }
      expect(JSON.stringify(bench.of("text"))).not.toContain(USERS);
      expect(bench.of("permission_unresolved")).toEqual([]);
      for (const kind of ["permission", "question"] as const) {
        const opened = bench.seen.flatMap((one) =>
          one.kind === "permission_asked" && kind === "permission"
            ? [`${one.request.session} ${one.request.request}`]
            : one.kind === "question_asked" && kind === "question"
              ? [`${one.question.session} ${one.question.request}`]
              : [],
        );
        const closed = bench.of(`${kind}_closed`).map(({ session, request }) => `${session} ${request}`);
        expect(closed.sort(), "left in the books").toEqual(opened.sort());
        expect(new Set(opened).size, "asked twice").toBe(opened.length);
        expect(opened.filter((key) => key.startsWith(X) || key.endsWith("_ghost"))).toEqual([]);
      }
      expect(bench.clock.pending, "timers left").toBe(0);
    }),
    { numRuns: 150 },
  );
});
