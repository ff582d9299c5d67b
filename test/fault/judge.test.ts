/** The judge of the crash tests must be able to say no: each invariant broken by hand. */
import { expect, test } from "vitest";
import type { MemberRow, TurnRow } from "../../controller/store/records.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { ModelRequest } from "../support/model/records.ts";
import { EVENTS, LOCATOR, SETTLEMENT } from "../support/samples.ts";
import { judge, type Told } from "./judge.ts";

const TEXT = "Do it once.";
const AFTER = { ...LOCATOR, settledTurns: LOCATOR.settledTurns + 1 };
const session = { nativeId: AFTER.nativeId, directory: "/workspace", tail: AFTER.tail, isVerified: true };

function request(texts: readonly string[], more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    ending: "completed",
    answer: { source: "script", round: 0, step: "reply", isFailure: false },
    request: { rows: [{ role: "user", texts }] },
    ...more,
  } as unknown as ModelRequest;
}

function told(over: Partial<Told> = {}, settled: Partial<Settlement> = {}, row: Partial<TurnRow> = {}): Told {
  const settlement: Settlement = {
    ...SETTLEMENT,
    outcome: "completed",
    settled: true,
    parts: ["All."],
    session,
    ...settled,
  };
  return {
    text: TEXT,
    whole: "All.",
    before: { locator: LOCATOR, settledTurns: LOCATOR.settledTurns },
    member: { locator: AFTER, settled_turns: AFTER.settledTurns, pending_locator: null } as MemberRow,
    turn: { state: "settled", ended_at: 1, settlement, ...row } as TurnRow,
    events: [EVENTS["turn.accepted"], EVENTS["turn.submitting"]] as ControlEvent[],
    requests: [request([TEXT])],
    ...over,
  };
}

const unsettled = (outcome: "unknown" | "not_sent", over: Partial<Told> = {}) =>
  told(
    {
      member: { locator: LOCATOR, settled_turns: LOCATOR.settledTurns, pending_locator: null } as MemberRow,
      ...over,
    },
    { outcome, settled: false, parts: [], session: null },
    { state: outcome },
  );

test("a turn that went well, and one that nobody can tell about, break nothing", () => {
  expect(judge(told())).toEqual({ violations: [], retries: 0 });
  expect(judge(unsettled("unknown"))).toEqual({ violations: [], retries: 0 });
  expect(judge(unsettled("not_sent", { requests: [] }))).toEqual({ violations: [], retries: 0 });
});

test("what the CLI asks again after a cut is counted, and after a whole answer it is a second time", () => {
  const cut = request([TEXT], { ending: "gone" });
  expect(judge(told({ requests: [cut, request([TEXT])] }))).toEqual({ violations: [], retries: 1 });
  expect(judge(told({ requests: [request([TEXT]), request([TEXT])] })).violations).toEqual([
    "step 0 was asked again after a whole answer",
  ]);
});

test.for<[string, Told]>([
  ["the text is in a request 2 times", told({ requests: [request([TEXT, TEXT])] })],
  ["the turn is not_sent, and the model has its text", unsettled("not_sent")],
  [
    "turn.submitting took effect 2 times",
    told({ events: [EVENTS["turn.submitting"], EVENTS["turn.submitting"]] as ControlEvent[] }),
  ],
  ["the turn has no outcome", told({}, {}, { settlement: null, ended_at: null })],
  [
    "the record says settled, the settlement unknown",
    unsettled("unknown", { turn: { ...unsettled("unknown").turn, state: "settled" } }),
  ],
  ['completed with "Half."', told({}, { parts: ["Half."] })],
  ["nothing settled, and the locator is not the old one", unsettled("unknown", { member: told().member })],
  ["the turn settled, and the locator is not its own", told({ member: unsettled("unknown").member })],
  [
    "the turn settled, and the locator is not its own",
    told({ member: { ...told().member, locator: { ...AFTER, nativeId: "ses_another" } } as MemberRow }),
  ],
])("it says: %s", ([violation, broken]) => {
  expect(judge(broken).violations).toContain(violation);
});
