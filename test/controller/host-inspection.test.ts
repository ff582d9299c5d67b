// A turn whose end nobody knows: its member waits for a note, and then never goes on by itself.
import { expect, test } from "vitest";
import { dialAgain, startFakeHost } from "../support/fake-host.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { until } from "../support/until.ts";

const failed = (code: string) => expect.objectContaining({ code });

/** A member with one settled turn and one, `t-1`, that began a tool and is unknown. */
async function unknownTurn() {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const first = fake.host.submit(member, "one", { id: "t-0" });
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await first.settlement;
  const turn = fake.host.submit(member, "two", { id: "t-1" });
  await bridge.untilAsked("turn.submit", 2);
  const ids = { turn: "t-1", member };
  bridge.emit({ type: "turn.context", ...ids, status: "LIVE", reason: "", nativeId: "ses_1" });
  bridge.emit({ type: "turn.submitting", ...ids, nativeMessage: "msg_20" });
  bridge.emit({ type: "turn.delivered", ...ids });
  const tool = { session: "ses_1", call: "call_1", tool: "bash", title: "rm x" };
  bridge.emit({ type: "turn.tool", ...ids, ...tool, status: "running" });
  await until("the events", () => bridge.acked === bridge.head);
  bridge.answers["turn.recover"] = async () => ({ state: "forgotten" });
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length > 0);
  await bridge.dial();
  expect(await turn.settlement).toMatchObject({ outcome: "unknown" });
  return { fake, member, bridge };
}

test("after an unknown turn nothing is admitted or sent until a note is recorded, also after a restart", async () => {
  const { fake, member, bridge } = await unknownTurn();
  expect(() => fake.host.submit(member, "three")).toThrow(failed("INSPECTION_NEEDED"));
  await fake.reopen();
  expect(() => fake.host.submit(member, "three")).toThrow(failed("INSPECTION_NEEDED"));
  expect(bridge.submissions()).toHaveLength(2);
  expect(fake.onDisk("SELECT * FROM turns")).toHaveLength(2);
  const { settlement } = fake.host.turn("t-1");
  expect(fake.host.recordInspection("t-1", "x was removed; fine")).toMatchObject({ turn: "t-1" });
  expect(fake.host.turn("t-1")).toMatchObject({ state: "unknown", settlement });
  expect(fake.onDisk("SELECT subject, detail FROM audit WHERE what = 'turn.inspected'")).toEqual([
    { subject: "t-1", detail: "x was removed; fine" },
  ]);
  const next = fake.host.submit(member, "three");
  await dialAgain(fake);
  await bridge.untilAsked("turn.submit", 3);
  expect(next.number).toBe(3);
});

test("the turn after it may not be LIVE, until one context was proven", async () => {
  const { fake, member, bridge } = await unknownTurn();
  fake.host.recordInspection("t-1", "seen");
  const third = fake.host.submit(member, "three", { id: "t-2" });
  await bridge.untilAsked("turn.submit", 3);
  expect(bridge.submission()).toMatchObject({ mustProve: "turn t-1 is unknown", settledTurns: 1 });
  bridge.emit({
    type: "turn.context",
    turn: "t-2",
    member,
    status: "RESTORED",
    reason: "",
    nativeId: "ses_1",
  });
  bridge.emit({ type: "turn.ended", turn: "t-2", member, number: 3, settlement: SETTLEMENT });
  await third.settlement;
  fake.host.submit(member, "four");
  await bridge.untilAsked("turn.submit", 4);
  expect(bridge.submission()).toMatchObject({ mustProve: null, settledTurns: 2 });
});

test("what is known is shown: what was sent, how far it came, the open tool, where it would be found", async () => {
  const { fake, member } = await unknownTurn();
  expect(fake.host.inspect("t-1")).toMatchObject({
    turn: {
      id: "t-1",
      member,
      number: 2,
      text_bytes: 3,
      state: "unknown",
      settlement: { outcome: "unknown" },
    },
    needsNote: true,
    inspection: null,
    reach: "delivered",
    openTools: [{ tool: "bash", title: "rm x" }],
    openRequests: [],
    lateEnd: null,
    native: {
      cli: "opencode",
      nativeId: "ses_1",
      message: "msg_20",
      settledTurns: 1,
      tail: { id: "msg_11" },
    },
  });
  expect(() => fake.host.inspect("none")).toThrow(failed("TURN_UNKNOWN"));
});

test("a note that is none, or for a turn that needs none, is refused, and the member stays as it is", async () => {
  const { fake, member } = await unknownTurn();
  expect(() => fake.host.recordInspection("t-1", "")).toThrow(failed("NOTE_INVALID"));
  expect(() => fake.host.recordInspection("t-1", "x".repeat(1025))).toThrow(failed("NOTE_INVALID"));
  expect(() => fake.host.recordInspection("t-0", "seen")).toThrow(failed("INSPECTION_NOT_NEEDED"));
  expect(() => fake.host.submit(member, "three")).toThrow(failed("INSPECTION_NEEDED"));
});
