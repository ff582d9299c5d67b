// Law 3: intent before action, and one submission at most once, whatever happens on the way to the bridge.

import { createHash } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { type ErrorCode, HoldfastError } from "../../protocol/errors.ts";
import { METHODS, type Result } from "../../protocol/methods.ts";
import type { FakeBridge } from "../support/fake-bridge.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { KEY, passing, startFakeHost } from "../support/fake-host.ts";
import { until } from "../support/until.ts";

type Answer = Result<"turn.recover">["state"];

async function started() {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const submit = () => fake.host.submit(member, "hello", { id: "t-1" });
  const ended = () => fake.host.turn("t-1").ended_at !== null;
  return { fake, clock, member, submit, ended, bridge: fake.bridge() };
}

/** The bridge takes a submission, journals it or not, and is gone before it could answer. */
function vanishesAtSubmit(bridge: FakeBridge, isJournaled: boolean): void {
  bridge.answers["turn.submit"] = async ({ turn, member, number }) => {
    bridge.vanish();
    if (isJournaled) bridge.emit({ type: "turn.accepted", turn, member, number });
    return {};
  };
}

const answering = (bridge: FakeBridge, state: Answer) => {
  bridge.answers["turn.recover"] = async () => ({ state });
};

test("law 3, S18: the turn is on the disk, admitted, before the bridge hears of it", async () => {
  const { fake, bridge, submit } = await started();
  const onDisk: unknown[] = [];
  bridge.answers["turn.submit"] = async () => {
    onDisk.push(...fake.onDisk("SELECT id, state, number FROM turns"));
    return {};
  };
  submit();
  expect(fake.onDisk("SELECT state FROM turns")).toEqual([{ state: "admitted" }]);
  expect(bridge.submissions()).toEqual([]);
  await bridge.untilAsked("turn.submit");
  expect(onDisk).toEqual([{ id: "t-1", state: "admitted", number: 1 }]);
});

test("law 3, S18: when the store can't keep the turn, nothing is sent", async () => {
  const { fake, clock, bridge, submit } = await started();
  const other = new DatabaseSync(join(fake.directory, "holdfast.db"));
  other.exec("CREATE TRIGGER full BEFORE INSERT ON turns BEGIN SELECT RAISE(ABORT, 'disk full'); END");
  expect(submit).toThrow(expect.objectContaining({ code: "STORE_ERROR" }));
  await clock.elapse(60_000);
  expect(bridge.submissions()).toEqual([]);
  expect(fake.onDisk("SELECT * FROM turns")).toEqual([]);
  other.exec("DROP TRIGGER full");
  other.close();
  expect(submit().number).toBe(1);
});

test("a turn whose commit nobody heard of is asked about when it comes again, ends, and was never sent", async () => {
  const { fake, clock, member, bridge, submit, ended } = await started();
  answering(bridge, "never_received");
  const textSha256 = createHash("sha256").update("hello").digest("hex");
  // As a store on another machine may leave it: written, and the answer to the commit lost.
  fake.host.store.admit({ id: "t-1", member, textSha256, textBytes: 5 });
  submit();
  await passing(clock, "the turn's end", ended);
  expect(fake.host.turn("t-1").settlement?.outcome).toBe("not_sent");
  expect(bridge.submissions()).toEqual([]);
  expect(fake.host.submit(member, "hello", { id: "t-2" }).number).toBe(2);
});

for (const [answer, outcome, isJournaled] of [
  ["never_received", "not_sent", false],
  ["forgotten", "unknown", true],
] as const) {
  test(`a link that dies during the submission is asked about, never sent again: ${answer} means ${outcome}`, async () => {
    const { clock, bridge, submit, ended, fake } = await started();
    vanishesAtSubmit(bridge, isJournaled);
    answering(bridge, answer);
    const turn = submit();
    await until("the end of the link", () => bridge.closes.length === 1);
    await clock.elapse(100);
    expect(ended()).toBe(false);
    await bridge.dial();
    expect(await turn.settlement).toMatchObject({ outcome, settled: false });
    expect(bridge.paramsOf("turn.recover")).toMatchObject([{ turn: "t-1", member: turn.member, number: 1 }]);
    expect(bridge.submissions()).toHaveLength(1);
    expect(fake.host.turn("t-1").state).toBe(outcome);
    expect(fake.host.running("t-1")).toBeNull();
  });
}

test("a turn that runs on behind a dead link is followed, and its end adopted once", async () => {
  const { clock, bridge, submit, ended, fake, member } = await started();
  vanishesAtSubmit(bridge, true);
  answering(bridge, "active");
  const turn = submit();
  await until("the end of the link", () => bridge.closes.length === 1);
  await bridge.dial();
  await bridge.untilAsked("turn.recover");
  await clock.elapse(10_000);
  expect(ended()).toBe(false);
  bridge.end();
  expect((await turn.settlement).outcome).toBe("completed");
  bridge.send(bridge.journal.map((entry) => ({ kind: "event", entry })));
  await until("their acknowledgement", () => bridge.acked === bridge.head);
  expect(fake.host.member(member).settled_turns).toBe(1);
  expect(bridge.submissions()).toHaveLength(1);
});

test("a turn that ended behind a dead link is adopted from the journal", async () => {
  const { bridge, submit } = await started();
  vanishesAtSubmit(bridge, true);
  answering(bridge, "ended");
  const turn = submit();
  await until("the end of the link", () => bridge.closes.length === 1);
  bridge.end();
  await bridge.dial();
  expect((await turn.settlement).outcome).toBe("completed");
  expect(bridge.submissions()).toHaveLength(1);
});

const refusals: ErrorCode[] = [...METHODS["turn.submit"].errors, "FENCED", "OVERLOADED"];
test.each(refusals)("a bridge that refuses with %s has not taken the turn", async (code) => {
  const { bridge, submit, fake } = await started();
  bridge.answers["turn.submit"] = () => Promise.reject(new HoldfastError(code, "no"));
  expect(await submit().settlement).toMatchObject({ outcome: "not_sent", settled: false, error: { code } });
  expect(bridge.paramsOf("turn.recover")).toEqual([]);
  expect(bridge.submissions()).toHaveLength(1);
  expect(fake.host.turn("t-1").state).toBe("not_sent");
});

test("an answer from which nothing follows is asked about, on the very link", async () => {
  const answers: Array<() => Promise<never>> = [
    () => Promise.reject(new HoldfastError("INTERNAL")),
    () => Promise.reject(new Error("a fault of the bridge itself")),
    // No object, as its schema wants one.
    () => Promise.resolve(7 as never),
  ];
  for (const answer of answers) {
    for (const [state, outcome] of [
      ["never_received", "not_sent"],
      ["forgotten", "unknown"],
    ] as const) {
      const { bridge, submit } = await started();
      bridge.answers["turn.submit"] = answer;
      answering(bridge, state);
      expect(await submit().settlement).toMatchObject({ outcome });
      expect(bridge.submissions()).toHaveLength(1);
      expect(bridge.welcomes).toHaveLength(1);
    }
  }
});

test("an answer that never comes on a living link is asked about too, after its limit", async () => {
  const { clock, bridge, submit, ended } = await started();
  bridge.answers["turn.submit"] = () => new Promise(() => undefined);
  const turn = submit();
  await bridge.untilAsked("turn.submit");
  await passing(clock, "the turn's end", ended);
  expect(await turn.settlement).toMatchObject({ outcome: "not_sent" });
  expect(bridge.paramsOf("turn.recover")).toHaveLength(1);
  expect(clock.monotonicMs()).toBeLessThan(40_000);
});

test("a recovery question that the bridge can't answer yet is asked again", async () => {
  const { clock, bridge, submit, ended } = await started();
  vanishesAtSubmit(bridge, false);
  let asked = 0;
  bridge.answers["turn.recover"] = async () => {
    asked += 1;
    if (asked < 3) throw new HoldfastError("STORE_ERROR", "no space left");
    return { state: "never_received" };
  };
  const turn = submit();
  await until("the end of the link", () => bridge.closes.length === 1);
  await bridge.dial();
  await passing(clock, "the turn's end", ended);
  expect(await turn.settlement).toMatchObject({ outcome: "not_sent" });
  expect(asked).toBe(3);
});

test("one turn about which the bridge can't answer does not hold up the others", async () => {
  const { clock, bridge, submit, fake } = await started();
  submit();
  const second = fake.host.submit(fake.member(), "two", { id: "t-2" });
  await bridge.untilAsked("turn.submit", 2);
  bridge.answers["turn.recover"] = async ({ turn }) => {
    if (turn === "t-1") throw new HoldfastError("STORE_ERROR", "no");
    return { state: "forgotten" };
  };
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length === 1);
  await bridge.dial();
  await passing(clock, "the other's end", () => fake.host.turn("t-2").ended_at);
  expect(await second.settlement).toMatchObject({ outcome: "unknown" });
  expect(fake.host.turn("t-1").ended_at).toBeNull();
});

test("a turn that waits to be sent is not asked about when the link comes", async () => {
  const { fake, bridge, submit } = await started();
  await fake.host.stopSandbox("box");
  submit();
  await bridge.untilAsked("turn.submit");
  expect(bridge.paramsOf("turn.recover")).toEqual([]);
  bridge.end();
  await until("its end", () => fake.host.turn("t-1").state === "settled");
});

test("a turn that waits to be sent survives that the bridge's journal is another one by then", async () => {
  const { fake, bridge, submit } = await started();
  await fake.host.stopSandbox("box");
  bridge.journalId = "another";
  bridge.journal = [];
  const turn = submit();
  await bridge.untilAsked("turn.submit");
  expect(fake.host.turn("t-1").state).toBe("admitted");
  bridge.end();
  expect((await turn.settlement).outcome).toBe("completed");
});

test("running turns are unknown when the journal is another one, or fell behind what was applied", async () => {
  for (const rollBack of [
    (bridge: FakeBridge) => {
      bridge.journalId = "another";
      bridge.journal = [];
    },
    (bridge: FakeBridge) => void bridge.journal.pop(),
  ]) {
    const { bridge, submit, member, fake } = await started();
    const turn = submit();
    await bridge.untilAsked("turn.submit");
    bridge.emit({ type: "turn.delivered", turn: "t-1", member });
    await until("its record", () => fake.host.turn("t-1").state === "delivered");
    bridge.vanish();
    await until("the end of the link", () => bridge.closes.length === 1);
    rollBack(bridge);
    await bridge.dial();
    const settlement = await turn.settlement;
    expect(settlement).toMatchObject({ outcome: "unknown", error: { code: "DELIVERY_UNKNOWN" } });
    expect(settlement.evidence[0]?.what).toBe("journal_lost");
    expect(() => fake.host.submit(member, "again")).toThrow(
      expect.objectContaining({ code: "INSPECTION_NEEDED" }),
    );
    expect(bridge.submissions()).toHaveLength(1);
  }
});

test("what a turn is launched with is on the disk before it is sent; when other bytes stand under its digest nothing is sent", async () => {
  const { fake, bridge, submit } = await started();
  const first = submit();
  await bridge.untilAsked("turn.submit");
  const { launch } = bridge.submission();
  const rows = fake.onDisk<{ launch: string; bytes: Uint8Array }>(
    "SELECT turns.launch, bytes FROM turns JOIN launch_revisions ON sha256 = turns.launch",
  );
  expect(rows).toEqual([{ launch: launch.digest, bytes: expect.any(Uint8Array) }]);
  const text = Buffer.from(rows[0]?.bytes ?? []).toString();
  expect(text).toContain(launch.model.name);
  expect(text).not.toContain(KEY);
  bridge.end();
  await first.settlement;

  const other = new DatabaseSync(join(fake.directory, "holdfast.db"));
  other.exec("UPDATE launch_revisions SET bytes = CAST(replace(bytes, '\"allow\"', '\"deny\"') AS BLOB)");
  other.close();
  const second = fake.host.submit(first.member, "hello");
  expect(await second.settlement).toMatchObject({ outcome: "not_sent", error: { code: "STORE_DAMAGED" } });
  expect(bridge.submissions()).toHaveLength(1);
});
