// A store that is older than its sandbox, seen from a platform: every turn has its end, and the member goes on.
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { dialAgain, startFakeHost } from "../support/fake-host.ts";
import { RESULTS, SETTLEMENT } from "../support/samples.ts";
import { until } from "../support/until.ts";

async function behind() {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const turn = fake.host.submit(member, "one", { id: "t-1" });
  await bridge.untilAsked("turn.submit");
  await until("the events", () => bridge.acked === bridge.head);
  bridge.vanish();
  // The bridge has gone on with a controller of which this store knows nothing.
  bridge.claimedHead = 30;
  bridge.claimedAcked = 20;
  bridge.claimedFence = 50;
  bridge.answers["bridge.status"] = async () => ({
    members: [],
    openTurns: [],
    numbers: [{ member, number: 9 }],
  });
  return { fake, member, bridge, turn };
}

test("the open turn is unknown, the link is taken with a higher fence, and numbers go on from the sandbox's", async () => {
  const { fake, member, bridge, turn } = await behind();
  await dialAgain(fake);
  expect(await turn.settlement).toMatchObject({ outcome: "unknown", evidence: [{ what: "store_set_back" }] });
  expect(bridge.welcomes.at(-1)).toEqual({ fence: 51, applied: 20 });
  await fake.host.startSandbox("box");
  fake.host.recordInspection("t-1", "seen");
  fake.host.submit(member, "two");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission()).toMatchObject({ number: 10, mustProve: "turn t-1 is unknown" });
});

test("a submission that comes before the numbers are known is not sent, and says to submit again", async () => {
  const { fake, member, bridge } = await behind();
  await dialAgain(fake);
  await until("the end", () => fake.host.turn("t-1").ended_at !== null);
  fake.host.recordInspection("t-1", "seen");
  bridge.answers["turn.submit"] = async ({ number }) => {
    if (number <= 9) throw new HoldfastError("TURN_NUMBER_USED");
    return RESULTS["turn.submit"];
  };
  const early = fake.host.submit(member, "two");
  expect(await early.settlement).toMatchObject({ outcome: "not_sent", error: { code: "TURN_NUMBER_USED" } });
  expect(fake.host.submit(member, "two").number).toBe(10);
});

test("what the sandbox tells of turns that are not there is passed over, and the link stays", async () => {
  const { fake, member, bridge } = await behind();
  await dialAgain(fake);
  const gone = { turn: "t-9", member };
  bridge.claimedHead = null;
  bridge.journal = Array.from({ length: 30 }, (_, at) => ({
    seq: at + 1,
    at: 0,
    event: { type: "turn.delivered", ...gone },
  }));
  bridge.emit({ type: "turn.ended", ...gone, number: 9, settlement: SETTLEMENT });
  bridge.vanish();
  await dialAgain(fake);
  await until("the acknowledgement", () => bridge.acked === 31);
  expect(bridge.isTaken).toBe(true);
  expect(fake.onDisk("SELECT subject FROM audit WHERE what = 'turn.passed_over'")).toEqual([
    { subject: "t-9" },
  ]);
});
