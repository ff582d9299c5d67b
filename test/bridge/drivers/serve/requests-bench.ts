// The requests of one turn with a fake server and a clock moved by hand. Sessions `ses_r` and its child `ses_c` are ours.
import { expect, onTestFinished } from "vitest";
import type { Observation } from "../../../../bridge/drivers/driver.ts";
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import { openTurnRequests, type TurnRequests } from "../../../../bridge/drivers/serve/turn-requests.ts";
import type { MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { createFakeApi, type FakeApi, turnRequest } from "./fake-api.ts";

export interface Bench {
  clock: FakeClock;
  api: FakeApi;
  requests: TurnRequests;
  seen: Observation[];
  of<K extends Observation["kind"]>(kind: K): Array<Extract<Observation, { kind: K }>>;
  unresolved: string[];
  warnings: string[];
  /** Raises a request in the list and tells its event, as a server does. */
  say(event: NativeEvent): Promise<void>;
}

const OURS = ["ses_r", "ses_c"];
export const ROOT = { session: "ses_r", title: "" };

export function bench(
  options: { policy?: Partial<MemberPolicy>; isKilo?: boolean; isSilent?: boolean } = {},
): Bench {
  const clock = new FakeClock();
  const seen: Observation[] = [];
  const unresolved: string[] = [];
  const warnings: string[] = [];
  let requests: TurnRequests | null = null;
  // With `isSilent` the server takes replies and tells no event: the list alone confirms.
  const api = createFakeApi((event) => {
    if (options.isSilent !== true) requests?.take(event);
  });
  const made = openTurnRequests({
    api,
    request: turnRequest(clock, { ...options, warnings, limits: { questionMs: 60_000 } }),
    directory: "/w",
    asksForNetwork: options.isKilo === true,
    isOurs: async (session) => OURS.includes(session),
    isAtWork: () => true,
    ancestry: (session) => (session === "ses_r" ? [ROOT] : [{ session, title: "explore" }, ROOT]),
    report: (observation) => seen.push(observation),
    onProviderWait: () => undefined,
    onUnresolved: (code, detail) => unresolved.push(`${code} ${detail}`),
  });
  requests = made;
  onTestFinished(async () => {
    made.close("the test is over");
    await clock.elapse(120_000);
    expect(clock.pending, "timers left").toBe(0);
  });
  return {
    clock,
    api,
    requests: made,
    seen,
    of: <K extends Observation["kind"]>(kind: K) =>
      seen.filter((one): one is Extract<Observation, { kind: K }> => one.kind === kind),
    unresolved,
    warnings,
    async say(event) {
      expect(made.take(event)).toBe(true);
      await clock.elapse(0);
    },
  };
}

export const code = (wanted: string): unknown => expect.objectContaining({ code: wanted });
