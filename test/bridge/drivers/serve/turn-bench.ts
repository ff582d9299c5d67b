// One active turn with a fake server and a clock moved by hand. The root is `ses_r`, its message `msg_own`.
import { expect, onTestFinished } from "vitest";
import type { Observation } from "../../../../bridge/drivers/driver.ts";
import { KILO } from "../../../../bridge/drivers/kilo/traits.ts";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { type ActiveTurn, openActiveTurn } from "../../../../bridge/drivers/serve/active-turn.ts";
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { EVIDENCE } from "../../../support/samples.ts";
import { createFakeApi, type FakeApi, turnRequest } from "./fake-api.ts";
import { on } from "./native.ts";

export const R = "ses_r";
export const OWN = "msg_own";

export interface TurnBench {
  clock: FakeClock;
  api: FakeApi;
  turn: ActiveTurn;
  seen: Observation[];
  of<K extends Observation["kind"]>(kind: K): Array<Extract<Observation, { kind: K }>>;
  /** Takes the events, and lets what they caused happen. */
  take(...events: NativeEvent[]): Promise<void>;
}

export interface TurnBenchOptions {
  isKilo?: boolean;
  policy?: Partial<MemberPolicy>;
  limits?: Partial<DriverLimits>;
  /** Replies take effect and no event tells. */
  isSilent?: boolean;
}

/** Ends with its test, with no timer left. */
export function turnBench(options: TurnBenchOptions = {}): TurnBench {
  const bench = openBench(options);
  onTestFinished(async () => {
    bench.turn.close();
    await bench.clock.elapse(60_000);
    expect(bench.clock.pending, "timers left").toBe(0);
  });
  return bench;
}

/** The same for a test that makes many, and closes each itself. */
export function openBench(options: TurnBenchOptions = {}): TurnBench {
  const clock = new FakeClock();
  const seen: Observation[] = [];
  let turn: ActiveTurn | null = null;
  const api = createFakeApi((event) => {
    if (options.isSilent !== true) turn?.take(event);
  });
  api.parents.set(R, null);
  const made = openActiveTurn({
    api,
    traits: options.isKilo === true ? KILO : OPENCODE,
    request: turnRequest(clock, options),
    session: R,
    directory: "/w",
    ownMessage: OWN,
    earlierMessages: new Set(),
    isAtOtherWork: false,
    onOtherWork: () => undefined,
    evidence: (what, source, detail = "") => ({ ...EVIDENCE, what, source, detail }),
    onObservation: (observation) => seen.push(observation),
  });
  turn = made;
  return {
    clock,
    api,
    turn: made,
    seen,
    of: <K extends Observation["kind"]>(kind: K) =>
      seen.filter((one): one is Extract<Observation, { kind: K }> => one.kind === kind),
    async take(...events) {
      for (const event of events) made.take(event);
      await clock.elapse(0);
    },
  };
}

/** The turn's own first events: it is under way, with an open answer `m1`. */
export const begun = (isKilo = false): NativeEvent[] => [
  on.user(R, OWN),
  ...(isKilo ? [on.turnOpen(R)] : []),
  on.busy(R),
  on.assistant(R, "m1", { parent: OWN }),
];

export const finished = (isKilo = false): NativeEvent[] => [
  on.assistant(R, "m1", { parent: OWN, done: true, finish: "stop" }),
  on.idle(R),
  ...(isKilo ? [on.turnClose(R)] : []),
];
