// The wall clock jumps by an hour, to and fro: it is in records, and moves no limit, lease or order.
import { expect, test } from "vitest";
import { AWAY_MS } from "../../controller/turn-watch.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { idle, startFakeHost } from "../support/fake-host.ts";
import { until } from "../support/until.ts";

const HOUR_MS = 3_600_000;

async function running() {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  const bridge = fake.bridge();
  bridge.answers["turn.recover"] = async () => ({ state: "active" });
  await bridge.untilAsked("turn.submit");
  return { clock, fake, member, turn, bridge };
}

test("a running turn, its link and its store's lease are as they were", async () => {
  const { clock, fake, member, turn, bridge } = await running();
  for (const jumpMs of [HOUR_MS, -2 * HOUR_MS, 10 * HOUR_MS]) {
    clock.setWallClock(jumpMs);
    await idle(clock, 3000);
    expect(bridge.closes).toEqual([]);
    expect(fake.host.turn("t-1").ended_at).toBeNull();
  }
  bridge.end();
  expect((await turn.settlement).outcome).toBe("completed");
  expect(fake.host.submit(member, "next").number).toBe(2);
  expect(fake.warnings).toEqual([]);
});

test("a bridge that is away is waited for as long as ever: no jump cuts or stretches the limit", async () => {
  for (const jumpMs of [HOUR_MS, -HOUR_MS]) {
    const { clock, fake, bridge } = await running();
    bridge.vanish();
    await until("the end of the link", () => bridge.closes.length === 1);
    await idle(clock, 10_000);
    clock.setWallClock(jumpMs);
    await idle(clock, AWAY_MS - 20_000);
    expect(fake.host.turn("t-1").ended_at).toBeNull();
    await idle(clock, 20_000);
    expect(fake.host.turn("t-1").settlement?.evidence[0]?.what).toBe("bridge_silent");
  }
});

test("what was made later comes later, whatever the clock said", async () => {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const members: string[] = [];
  for (const [at, id] of ["z", "m", "a"].entries()) {
    fake.host.createSandbox({ kind: "docker", id: `box-${id}` });
    const { model } = {
      model: { name: "m1", protocol: "chat-completions" as const, contextTokens: 9, outputTokens: 9 },
    };
    members.push(fake.host.createMember({ sandbox: "box-z", cli: "opencode", model, id: `m-${id}` }).id);
    clock.setWallClock(at % 2 === 0 ? -HOUR_MS : 2 * HOUR_MS);
  }
  expect(fake.host.sandboxes().map(({ id }) => id)).toEqual(["box-z", "box-m", "box-a"]);
  expect(fake.host.membersOf("box-z").map(({ id }) => id)).toEqual(members);
  await fake.reopen();
  expect(fake.host.sandboxes().map(({ id }) => id)).toEqual(["box-z", "box-m", "box-a"]);
});
