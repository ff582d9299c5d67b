import { expect, onTestFinished, test } from "vitest";
import { createResidency, RESIDENCY_DEFAULTS } from "../../controller/residency.ts";
import type { ResidencyLimits } from "../../controller/residency-decision.ts";
import type { SeenResident } from "../../controller/store/residents.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { ended, type Rig, simpleRig } from "./store/rig.ts";

const failed = (code: string) => expect.objectContaining({ code });
const MINUTE = 60_000;

interface Scene {
  rig: Rig;
  clock: FakeClock;
  residency: ReturnType<typeof createResidency>;
  retired: string[];
  warnings: string[];
  /** What the bridge of the sandbox would say; null leaves the store's word as it is. */
  seen: { value: SeenResident[] | null };
  /** What becomes of a retirement. */
  end: (member: string) => Promise<boolean>;
  /** A turn's way: admitted, waiting; its queue time once it was let in. */
  enter(member: string): { turn: string; in: number | HoldfastError | null };
  /** The events that the bridge sends: into the store, and on. */
  apply(...events: ControlEvent[]): void;
  ready(member: string): void;
  gone(member: string): void;
  finish(turn: string, member: string): void;
  residents(): string[];
}

function scene(limits: Partial<ResidencyLimits> = {}, members = 6): Scene {
  const rig = simpleRig();
  for (let at = 2; at <= members; at += 1) rig.member(`m-${at}`);
  const clock = new FakeClock();
  const retired: string[] = [];
  const warnings: string[] = [];
  const seen: Scene["seen"] = { value: null };
  const residency = createResidency({
    store: rig.store,
    clock,
    limits: { memoryBytes: 1e12, ...RESIDENCY_DEFAULTS, ...limits },
    async retire(_, member) {
      const isGone = await made.end(member);
      if (isGone) retired.push(member);
      return isGone;
    },
    look: async () => seen.value,
    onWarning: (what, detail) => warnings.push(`${what}: ${detail}`),
  });
  onTestFinished(() => residency.close());
  let turns = 0;
  const made: Scene = {
    rig,
    clock,
    residency,
    retired,
    warnings,
    seen,
    end: async () => true,
    enter(member) {
      turns += 1;
      const turn = `t-${turns}`;
      rig.admit(turn, member);
      const state: ReturnType<Scene["enter"]> = { turn, in: null };
      residency.enter(turn, member).then(
        (queuedMs) => {
          state.in = queuedMs;
        },
        (error: HoldfastError) => {
          state.in = error;
        },
      );
      return state;
    },
    apply(...events) {
      residency.applied(rig.apply(events).events);
    },
    ready: (member) => made.apply(process(member, "ready")),
    gone: (member) => made.apply(process(member, "exited")),
    finish(turn, member) {
      made.apply(ended(turn, {}, member));
      residency.left(turn);
    },
    residents: () => rig.store.residents().map(({ member }) => member),
  };
  return made;
}

function process(member: string, state: "ready" | "exited"): ControlEvent {
  return { type: "member.process", member, processGeneration: 1, state, detail: "" };
}

/** A member with a process and no turn. */
async function resident(made: Scene, ...members: string[]): Promise<void> {
  for (const member of members) {
    const turn = made.enter(member);
    await settled();
    made.ready(member);
    made.finish(turn.turn, member);
  }
}

test("so many start at once as may; the others wait in their order, with the time it took them", async () => {
  const made = scene({ starts: 2 });
  const turns = ["m-1", "m-2", "m-3", "m-4"].map((member) => made.enter(member));
  await settled();
  expect(turns.map((turn) => turn.in)).toEqual([0, 0, null, null]);
  await made.clock.elapse(1500);
  made.ready("m-2");
  await settled();
  expect(turns.map((turn) => turn.in)).toEqual([0, 0, 1500, null]);
  // A start that came to nothing frees its place too.
  await made.clock.elapse(500);
  made.residency.left("t-1");
  await settled();
  expect(turns.map((turn) => turn.in)).toEqual([0, 0, 1500, 2000]);
});

test("one whose process exits while it starts frees its place", async () => {
  const made = scene({ starts: 1 });
  const [, second] = [made.enter("m-1"), made.enter("m-2")];
  await settled();
  expect(second.in).toBeNull();
  made.gone("m-1");
  await settled();
  expect(second.in).toBe(0);
});

test("a member that is resident waits for nothing", async () => {
  const made = scene({ starts: 1 });
  await resident(made, "m-1");
  made.enter("m-2");
  const again = made.enter("m-1");
  const other = made.enter("m-3");
  await settled();
  expect([again.in, other.in]).toEqual([0, null]);
});

test("beyond the line's length and beyond the time that one may wait it is refused, and nothing is left waiting", async () => {
  const made = scene({ starts: 1, waiting: 1, waitMs: 1000 });
  const [, waits, refused] = [made.enter("m-1"), made.enter("m-2"), made.enter("m-3")];
  await settled();
  expect(refused.in).toEqual(failed("OVERLOADED"));
  await made.clock.elapse(999);
  expect(waits.in).toBeNull();
  await made.clock.elapse(1);
  expect(waits.in).toEqual(failed("OVERLOADED"));
  expect(made.clock.pending).toBe(0);
});

test("one that was ended while it waited gets the cause, and those behind it move up", async () => {
  const made = scene({ starts: 1 });
  const [first, second, third] = [made.enter("m-1"), made.enter("m-2"), made.enter("m-3")];
  await settled();
  const cause = new HoldfastError("OVERLOADED", "ended");
  expect(made.residency.cancel(first.turn, cause)).toBe(false);
  expect(made.residency.cancel(second.turn, cause)).toBe(true);
  await settled();
  expect(second.in).toBe(cause);
  made.ready("m-1");
  await settled();
  expect(third.in).toBe(0);
});

test("for a new one the longest unused is retired first; one in use never", async () => {
  const made = scene({ residents: 3 });
  await resident(made, "m-1", "m-2", "m-3");
  const used = made.enter("m-1");
  await settled();
  const fourth = made.enter("m-4");
  await settled();
  expect(made.retired).toEqual(["m-2"]);
  expect(fourth.in).toBe(0);
  made.ready("m-4");
  made.finish(fourth.turn, "m-4");
  made.finish(used.turn, "m-1");
  // The order is that of last use: m-3 is the longest unused now.
  made.enter("m-5");
  await settled();
  expect(made.retired).toEqual(["m-2", "m-3"]);
  expect(made.residents()).toEqual(["m-4", "m-1"]);
});

test("with all in use a new one waits until one of them is not", async () => {
  const made = scene({ residents: 2 });
  await resident(made, "m-1", "m-2");
  const [one] = [made.enter("m-1"), made.enter("m-2")];
  const third = made.enter("m-3");
  await made.clock.elapse(5000);
  expect({ in: third.in, retired: made.retired }).toEqual({ in: null, retired: [] });
  made.finish(one.turn, "m-1");
  await settled();
  expect({ in: third.in, retired: made.retired }).toEqual({ in: 5000, retired: ["m-1"] });
});

test("memory is a budget too, by what the bridge says", async () => {
  const made = scene({ memoryBytes: 1000e6, startBytes: 300e6, idleMs: 60 * MINUTE });
  await resident(made, "m-1", "m-2");
  made.seen.value = [
    { member: "m-1", processGeneration: 1, rssBytes: 450e6 },
    { member: "m-2", processGeneration: 1, rssBytes: 400e6 },
  ];
  await made.clock.elapse(20_000);
  expect(made.rig.store.residents().map(({ rss_bytes }) => rss_bytes)).toEqual([450e6, 400e6]);
  made.seen.value = null;
  const third = made.enter("m-3");
  await settled();
  expect({ in: third.in, retired: made.retired }).toEqual({ in: 0, retired: ["m-1"] });
});

test("one that nobody used for the limit is retired; one with a turn stays, however long it takes", async () => {
  const made = scene({ idleMs: 10 * MINUTE });
  await resident(made, "m-1", "m-2");
  const turn = made.enter("m-2");
  await settled();
  await made.clock.elapse(9 * MINUTE);
  expect(made.retired).toEqual([]);
  await made.clock.elapse(2 * MINUTE);
  expect(made.retired).toEqual(["m-1"]);
  await made.clock.elapse(60 * MINUTE);
  expect(made.retired).toEqual(["m-1"]);
  made.finish(turn.turn, "m-2");
  await made.clock.elapse(9 * MINUTE);
  expect(made.retired).toEqual(["m-1"]);
  await made.clock.elapse(2 * MINUTE);
  expect(made.retired).toEqual(["m-1", "m-2"]);
  expect(made.residents()).toEqual([]);
  // Nothing resident, nothing to look at.
  expect(made.clock.pending).toBe(0);
});

test("one that can't be retired keeps its place, is said, and is tried again later; the line goes on with the next", async () => {
  const made = scene({ residents: 2, idleMs: 60 * MINUTE });
  await resident(made, "m-1", "m-2");
  made.end = async (member) => {
    if (member === "m-1") throw new HoldfastError("PROCESS_LEFT", "one is left");
    return true;
  };
  const third = made.enter("m-3");
  await settled();
  expect({ in: third.in, retired: made.retired }).toEqual({ in: 0, retired: ["m-2"] });
  expect(made.warnings).toEqual(["member m-1 can't be retired: one is left"]);
  made.ready("m-3");
  made.finish(third.turn, "m-3");
  made.end = async () => true;
  const fourth = made.enter("m-4");
  await settled();
  expect({ in: fourth.in, retired: made.retired }).toEqual({ in: 0, retired: ["m-2", "m-3"] });
  made.residency.left(fourth.turn);
  await made.clock.elapse(61 * MINUTE);
  expect(made.retired).toEqual(["m-2", "m-3", "m-1"]);
});

test("a bridge that is back says what is there: the dead are forgotten, and the line moves on", async () => {
  const made = scene({ residents: 2 });
  await resident(made, "m-1", "m-2");
  [made.enter("m-1"), made.enter("m-2")];
  const third = made.enter("m-3");
  await settled();
  expect(third.in).toBeNull();
  made.seen.value = [{ member: "m-1", processGeneration: 1, rssBytes: 1 }];
  made.residency.linkUp("box");
  await settled();
  expect(made.residents()).toEqual(["m-1"]);
  expect(third.in).toBe(0);
  made.residency.linkUp("another");
});

test("when it closes, who waits is told, and no timer is left", async () => {
  const made = scene({ starts: 1 });
  await resident(made, "m-1");
  const [, waits] = [made.enter("m-2"), made.enter("m-3")];
  await settled();
  made.residency.close();
  await settled();
  expect(waits.in).toEqual(failed("STOPPED"));
  expect(made.clock.pending).toBe(0);
  await expect(made.residency.enter("t-9", "m-4")).rejects.toEqual(failed("STOPPED"));
});

test("the next controller retires what an earlier one left, counted from its own start", async () => {
  const made = scene({ idleMs: 10 * MINUTE });
  await resident(made, "m-1");
  made.residency.close();
  const clock = new FakeClock();
  const retired: string[] = [];
  const next = createResidency({
    store: made.rig.store,
    clock,
    limits: { memoryBytes: 1e12, ...RESIDENCY_DEFAULTS, idleMs: 10 * MINUTE },
    retire: async (_, member) => retired.push(member) > 0,
    look: async () => null,
    onWarning: () => undefined,
  });
  await clock.elapse(9 * MINUTE);
  expect(retired).toEqual([]);
  await clock.elapse(2 * MINUTE);
  expect(retired).toEqual(["m-1"]);
  next.close();
});
