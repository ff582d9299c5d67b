// What becomes of running turns when their bridge or their sandbox goes away, seen through a host.
import { expect, test } from "vitest";
import { AWAY_MS } from "../../controller/turn-watch.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { REVIVALS } from "../../protocol/recovery.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { type FakeHost, idle, passing, passingUntil, startFakeHost } from "../support/fake-host.ts";
import { until } from "../support/until.ts";

async function running() {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  const bridge = fake.bridge();
  bridge.answers["turn.recover"] = async () => ({ state: "active" });
  await bridge.untilAsked("turn.submit");
  return { clock, fake, member, turn, bridge, sandboxes: fake.sandboxes };
}

const outcomeOf = (fake: FakeHost) => fake.host.turn("t-1").settlement?.outcome ?? null;

test("a container that is missing leaves its turn unknown in bounded time", async () => {
  const { clock, fake, member, turn, sandboxes } = await running();
  const before = clock.monotonicMs();
  sandboxes.die("box", "missing");
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(clock.monotonicMs() - before).toBeLessThan(5000);
  const settlement = await turn.settlement;
  expect(settlement).toMatchObject({
    outcome: "unknown",
    settled: false,
    error: { code: "DELIVERY_UNKNOWN" },
  });
  expect(settlement.evidence[0]).toMatchObject({ source: "host", what: "sandbox_gone" });
  expect(sandboxes.count("start")).toBe(1);
  // Nobody knows what became of it, so nothing follows it.
  expect(() => fake.host.submit(member, "again")).toThrow(
    expect.objectContaining({ code: "INSPECTION_NEEDED" }),
  );
});

test("a container that stopped during a turn is started again, and its journal's end of the turn adopted", async () => {
  const { clock, fake, turn, bridge, sandboxes } = await running();
  sandboxes.onStart = async () => {
    bridge.end({ outcome: "failed", settled: false, session: null });
    await bridge.dial();
  };
  sandboxes.die("box");
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(await turn.settlement).toMatchObject({ outcome: "failed", settled: false });
  expect(sandboxes.count("start")).toBe(2);
  expect(bridge.submissions()).toHaveLength(1);
});

test("it is revived so many times in a row and no more", async () => {
  const { clock, fake, sandboxes, bridge } = await running();
  sandboxes.onStart = async () => {
    await bridge.dial();
    setImmediate(() => sandboxes.die("box"));
  };
  sandboxes.die("box");
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(outcomeOf(fake)).toBe("unknown");
  expect(sandboxes.count("start")).toBe(1 + REVIVALS);
  await idle(clock, 60_000);
  expect(sandboxes.count("start")).toBe(1 + REVIVALS);
});

test("one that can't be started again is given up too", async () => {
  const { clock, fake, sandboxes } = await running();
  sandboxes.before.start = () => Promise.reject(new HoldfastError("ENGINE_ERROR", "no space left"));
  sandboxes.die("box");
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(outcomeOf(fake)).toBe("unknown");
  expect(sandboxes.count("start")).toBe(1 + REVIVALS);
});

test("a helper that is another one by then is not trusted with the turn's end", async () => {
  const { clock, fake, sandboxes, bridge } = await running();
  sandboxes.measured = { foreignMounts: ["/etc"] };
  sandboxes.die("box");
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(outcomeOf(fake)).toBe("unknown");
  expect(sandboxes.count("start")).toBe(1);
  expect(bridge.welcomes).toHaveLength(1);
});

test("a settled turn starts the count anew", async () => {
  const { clock, fake, member, sandboxes, bridge } = await running();
  sandboxes.onStart = async () => {
    bridge.end({ outcome: "failed", settled: false, session: null });
    await bridge.dial();
  };
  for (let n = 1; n <= REVIVALS + 2; n += 1) {
    sandboxes.die("box");
    await passing(clock, "the turn's end", () => fake.host.turn(`t-${n}`).ended_at);
    expect(fake.host.turn(`t-${n}`).state).toBe("failed");
    fake.host.submit(member, "again", { id: `t-${n + 1}` });
    await bridge.untilAsked("turn.submit", n + 1);
  }
});

test("a link that comes back by itself costs nothing: no look, no start, the turn goes on", async () => {
  const { clock, fake, turn, bridge, sandboxes } = await running();
  let looks = 0;
  sandboxes.before.state = () => {
    looks += 1;
  };
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length === 1);
  await clock.elapse(400);
  await bridge.dial();
  await idle(clock, 60_000);
  expect(looks).toBe(0);
  bridge.end();
  expect((await turn.settlement).outcome).toBe("completed");
  expect(fake.warnings).toEqual([]);
});

test("a bridge that is away while its container runs is waited for", async () => {
  const { clock, fake, turn, bridge, sandboxes } = await running();
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length === 1);
  await idle(clock, 30_000);
  expect(outcomeOf(fake)).toBeNull();
  bridge.end();
  await bridge.dial();
  expect((await turn.settlement).outcome).toBe("completed");
  expect(sandboxes.count("start")).toBe(1);
});

test("a bridge that never dials again has a limit: the turn is unknown, the sandbox not ready, with the reason", async () => {
  const { clock, fake, turn, bridge, sandboxes } = await running();
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length === 1);
  await idle(clock, AWAY_MS - 5000);
  expect(outcomeOf(fake)).toBeNull();
  await idle(clock, 10_000);
  expect(await turn.settlement).toMatchObject({
    outcome: "unknown",
    error: { code: "DELIVERY_UNKNOWN" },
    evidence: [{ what: "bridge_silent", source: "host" }],
  });
  expect(fake.host.store.sandbox("box")?.unready).toContain("did not connect");
  expect(sandboxes.count("start")).toBe(1);
  // It comes back with the turn: that is ended, and its late end kept for whoever looks.
  let openTurns = [{ turn: "t-1", member: turn.member, number: 1 }];
  bridge.answers["bridge.status"] = async () => ({ members: [], openTurns, numbers: [] });
  bridge.answers["turn.abort"] = async () => {
    openTurns = [];
    bridge.end({ outcome: "aborted" });
    return {};
  };
  await bridge.dial();
  await passingUntil(clock, "readiness", fake.host.startSandbox("box"));
  expect(bridge.paramsOf("turn.abort")).toEqual([{ turn: "t-1" }]);
  expect(fake.host.store.sandbox("box")?.unready).toBeNull();
  await until("the late end", () => fake.host.inspect("t-1").lateEnd);
  expect(fake.host.inspect("t-1")).toMatchObject({
    turn: { state: "unknown" },
    lateEnd: { outcome: "aborted" },
  });
});

test("a link that comes and goes and answers nothing has the same limit", async () => {
  const { clock, fake, bridge } = await running();
  bridge.answers["turn.recover"] = () => new Promise(() => undefined);
  for (let passedMs = 0; outcomeOf(fake) === null; passedMs += 10_000) {
    expect(passedMs).toBeLessThan(AWAY_MS + 60_000);
    bridge.vanish();
    await idle(clock, 10_000);
    if (outcomeOf(fake) === null) await bridge.dial();
  }
  expect(fake.host.turn("t-1").settlement?.evidence[0]?.what).toBe("bridge_silent");
});

test("an engine that does not answer has the limit too, when the bridge is away with it", async () => {
  const { clock, fake, bridge, sandboxes } = await running();
  sandboxes.before.state = () => Promise.reject(new HoldfastError("ENGINE_MISSING", "connect ECONNREFUSED"));
  bridge.vanish();
  await until("the end of the link", () => bridge.closes.length === 1);
  await idle(clock, AWAY_MS + 10_000);
  expect(outcomeOf(fake)).toBe("unknown");
});

test("an engine that does not answer is no verdict: it is asked again until it does", async () => {
  const { clock, fake, sandboxes } = await running();
  let asked = 0;
  sandboxes.before.state = () => {
    asked += 1;
    throw new HoldfastError("ENGINE_MISSING", "connect ECONNREFUSED");
  };
  sandboxes.die("box", "missing");
  await passing(clock, "several looks", () => asked >= 3);
  expect(outcomeOf(fake)).toBeNull();
  expect(fake.warnings.join()).toContain("ECONNREFUSED");
  delete sandboxes.before.state;
  await passing(clock, "the turn's end", () => outcomeOf(fake));
  expect(outcomeOf(fake)).toBe("unknown");
});

test("without a turn nobody looks after a sandbox that ended", async () => {
  const { clock, fake, turn, bridge, sandboxes } = await running();
  bridge.end();
  await turn.settlement;
  sandboxes.die("box");
  await idle(clock, 60_000);
  expect(sandboxes.count("start")).toBe(1);
  expect(fake.warnings).toEqual([]);
});

test("two members' turns run side by side, and each gets its own text, events and end", async () => {
  const { fake, turn, bridge } = await running();
  const other = fake.host.submit(fake.member(), "hello", { id: "t-2" });
  await bridge.untilAsked("turn.submit", 2);
  const texts: string[] = [];
  const reading = (async () => {
    for await (const update of turn) if (update.kind === "text") texts.push(update.text);
  })();
  bridge.send([
    { kind: "delta", turn: "t-1", part: "p", offset: 0, text: "mine" },
    { kind: "delta", turn: "t-2", part: "p", offset: 0, text: "theirs" },
  ]);
  bridge.end({ session: { nativeId: "ses_2", directory: "/workspace", tail: null, isVerified: true } });
  expect((await other.settlement).outcome).toBe("completed");
  expect(outcomeOf(fake)).toBeNull();
  bridge.asked.push({ method: "turn.submit", params: bridge.submissions()[0] });
  bridge.end();
  await reading;
  expect(texts).toEqual(["mine"]);
});

test("law 7, B8: a turn in a session of another member is aborted as soon as it is seen", async () => {
  const { fake, bridge } = await running();
  bridge.emit({
    type: "turn.context",
    turn: "t-1",
    member: bridge.submission().member,
    status: "NEW",
    reason: "",
    nativeId: "ses_1",
  });
  const other = fake.member();
  fake.host.submit(other, "hello", { id: "t-2" });
  await bridge.untilAsked("turn.submit", 2);
  bridge.emit({
    type: "turn.context",
    turn: "t-2",
    member: other,
    status: "NEW",
    reason: "",
    nativeId: "ses_1",
  });
  await bridge.untilAsked("turn.abort");
  expect(bridge.paramsOf("turn.abort")).toEqual([{ turn: "t-2" }]);
  expect(fake.warnings.join()).toContain("native id of another member");
});
