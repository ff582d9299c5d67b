// Laws 10, 11 and 12 over a controller's restart: turns go on without it, and the next one takes them up.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { dialAgain, type FakeHost, passing, startFakeHost } from "../support/fake-host.ts";
import { until, within } from "../support/until.ts";

async function running() {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  const bridge = fake.bridge();
  bridge.answers["turn.recover"] = async () => ({ state: "active" });
  await bridge.untilAsked("turn.submit");
  return { fake, clock, member, turn, bridge, sandboxes: fake.sandboxes };
}

const stateOf = (fake: FakeHost) => fake.onDisk<{ state: string }>("SELECT state FROM turns")[0]?.state;

/** What the fake bridge's own reconnecting would do. */
test("closing lets a running turn go on: its handle says so, the record stays open", async () => {
  const { fake, turn, sandboxes } = await running();
  const reading = (async () => {
    for await (const update of turn) void update;
  })();
  const rejected = expect(reading).rejects.toMatchObject({ code: "STOPPED" });
  await fake.host.close();
  await expect(turn.settlement).rejects.toMatchObject({ code: "STOPPED" });
  await rejected;
  expect(stateOf(fake)).toBe("admitted");
  expect(sandboxes.states.get("box")).toBe("running");
  expect(sandboxes.calls).toEqual(["create", "start"]);
});

test("the next controller adopts what ended meanwhile, once, over any number of restarts", async () => {
  const { fake, member, bridge } = await running();
  await fake.host.close();
  bridge.answers["turn.recover"] = async () => ({ state: "ended" });
  bridge.end();
  fake.host = await fake.open();
  await dialAgain(fake);
  await until("the settlement", () => fake.host.turn("t-1").state === "settled");
  for (let n = 0; n < 2; n += 1) {
    await fake.reopen();
    await Promise.all([fake.host.startSandbox("box"), dialAgain(fake)]);
  }
  expect(fake.host.member(member)).toMatchObject({ settled_turns: 1, submissions: 1 });
  expect(fake.host.store.locatorHistory(member)).toHaveLength(1);
  expect(bridge.submissions()).toHaveLength(1);
  expect(fake.onDisk("SELECT count(*) AS n FROM turn_events")).toEqual([{ n: 3 }]);
});

test("a turn that still runs has a handle at the next controller, and goes on under it", async () => {
  const { fake, bridge } = await running();
  await fake.reopen();
  const turn = fake.host.running("t-1");
  expect(turn).toMatchObject({ id: "t-1", number: 1 });
  await dialAgain(fake);
  await turn?.abort();
  expect(bridge.paramsOf("turn.abort")).toEqual([{ turn: "t-1" }]);
  bridge.end({ outcome: "aborted" });
  expect(await turn?.settlement).toMatchObject({ outcome: "aborted" });
});

test("each controller has a higher fence than the one before, and the bridge is told", async () => {
  const { fake, bridge } = await running();
  for (let n = 0; n < 3; n += 1) {
    await fake.reopen();
    await dialAgain(fake);
  }
  const fences = bridge.welcomes.map(({ fence }) => fence);
  expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  expect(fences.at(-1)).toBe(fake.host.store.fence);
});

test("a controller that was fenced off takes no bridge and writes no end", async () => {
  const { fake, bridge, turn } = await running();
  const other = new DatabaseSync(join(fake.directory, "holdfast.db"));
  other.exec("UPDATE meta SET value = '99' WHERE name = 'fence'");
  other.close();
  let isSettled = false;
  turn.settlement.then(
    () => {
      isSettled = true;
    },
    () => undefined,
  );
  bridge.end();
  await until("the end of the link", () => bridge.closes.length === 1);
  expect(await bridge.dial()).toBe("closed");
  expect(isSettled).toBe(false);
  expect(stateOf(fake)).toBe("admitted");
  expect(() => fake.host.submit(fake.host.membersOf("box")[0]?.id ?? "", "x")).toThrow(
    expect.objectContaining({ code: "FENCED" }),
  );
});

test("a container that is gone by then leaves the turn unknown", async () => {
  const { fake, clock, sandboxes } = await running();
  await fake.host.close();
  sandboxes.die("box", "missing");
  fake.host = await fake.open();
  await passing(clock, "its end", () => fake.host.turn("t-1").ended_at);
  expect(fake.host.turn("t-1")).toMatchObject({ state: "unknown", settlement: { outcome: "unknown" } });
  expect(sandboxes.count("create")).toBe(1);
});

test("a container that has stopped by then is started, and asked", async () => {
  const { fake, clock, bridge, sandboxes } = await running();
  await fake.host.close();
  sandboxes.die("box");
  sandboxes.onStart = async () => {
    bridge.end({ outcome: "failed", settled: false, session: null });
    await bridge.dial();
  };
  fake.host = await fake.open();
  await passing(clock, "its end", () => fake.host.turn("t-1").ended_at);
  expect(fake.host.turn("t-1").state).toBe("failed");
  expect(sandboxes.count("start")).toBe(2);
});

test("an engine that is away while the next controller opens costs no turn its end", async () => {
  const { fake, clock, bridge, sandboxes } = await running();
  await fake.host.close();
  const away = () => Promise.reject(new HoldfastError("ENGINE_MISSING", "connect ECONNREFUSED"));
  for (const step of ["state", "measure", "list"] as const) sandboxes.before[step] = away;
  fake.host = await fake.open();
  await passing(clock, "some time", () => clock.monotonicMs() > 10_000);
  expect(stateOf(fake)).toBe("admitted");
  // The bridge needs no engine to come back.
  await dialAgain(fake);
  bridge.end();
  await until("the settlement", () => fake.host.turn("t-1").state === "settled");
});

test("a helper that is no longer the pinned one leaves its turn unknown, and is not started", async () => {
  const { fake, clock, sandboxes } = await running();
  await fake.host.close();
  sandboxes.die("box");
  sandboxes.measured = { imageId: "sha256:other" };
  fake.host = await fake.open();
  await passing(clock, "its end", () => fake.host.turn("t-1").ended_at);
  expect(fake.host.turn("t-1").settlement).toMatchObject({
    outcome: "unknown",
    error: { message: expect.stringContaining("not the one that this host built") },
  });
  await clock.elapse(60_000);
  expect(sandboxes.count("start")).toBe(1);
});

test("a turn that was admitted and never sent, because the controller died, is not sent", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  fake.host.store.admit({ id: "t-1", member, textSha256: "ab", textBytes: 2 });
  await fake.reopen();
  await until("its end", () => fake.host.turn("t-1").ended_at);
  expect(fake.host.turn("t-1").state).toBe("not_sent");
  expect(fake.bridge().submissions()).toEqual([]);
  expect(fake.bridge().paramsOf("turn.recover")).toHaveLength(1);
  expect(fake.host.submit(member, "again").number).toBe(2);
});

test("one that was admitted before its sandbox was ever made is not sent either, engine or not", async () => {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  fake.host.store.admit({ id: "t-1", member, textSha256: "ab", textBytes: 2 });
  fake.sandboxes.before.create = () => Promise.reject(new HoldfastError("ENGINE_MISSING"));
  await fake.reopen();
  await passing(clock, "its end", () => fake.host.turn("t-1").ended_at);
  expect(fake.host.turn("t-1").state).toBe("not_sent");
});

test("a controller that closes again before the bridge came back ends nothing", async () => {
  const { fake, bridge } = await running();
  for (let n = 0; n < 3; n += 1) {
    await fake.reopen();
    expect(fake.host.running("t-1")).not.toBeNull();
  }
  await within("the close", fake.host.close());
  expect(stateOf(fake)).toBe("admitted");
  fake.host = await fake.open();
  await dialAgain(fake);
  bridge.end();
  await until("the settlement", () => fake.host.turn("t-1").state === "settled");
  expect(bridge.submissions()).toHaveLength(1);
});

test("closing while a sandbox starts waits for the engine, starts nothing afterwards, and says what was not sent", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  const gate = Promise.withResolvers<void>();
  fake.sandboxes.before.measure = () => gate.promise;
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  await until("the measuring", () => fake.sandboxes.count("create") === 1);
  const closing = fake.host.close();
  gate.resolve();
  await within("the close", closing);
  expect(fake.sandboxes.calls).toEqual(["create"]);
  expect(await turn.settlement).toMatchObject({ outcome: "not_sent", error: { code: "STOPPED" } });
  expect(stateOf(fake)).toBe("not_sent");
});

test("closing in the middle of attaching leaves no socket behind", async () => {
  const fake = await startFakeHost();
  fake.member();
  const start = fake.host.startSandbox("box").catch((error: HoldfastError) => error.code);
  await fake.host.close();
  expect(await start).toBe("STOPPED");
  fake.host = await fake.open();
  await fake.host.startSandbox("box");
});

test("one broken sandbox with an open turn keeps no host from opening: it is not ready, with the reason, the others go on", async () => {
  const { fake } = await running();
  const other = fake.member("other");
  const second = fake.host.submit(other, "hello", { id: "t-2" });
  second.settlement.catch(() => undefined);
  const good = await until("the other bridge", () => fake.sandboxes.bridges.get("other"));
  good.answers["turn.recover"] = async () => ({ state: "active" });
  await good.untilAsked("turn.submit");
  await fake.host.close();
  // A token that this host did not make: nothing can listen for that sandbox.
  const token = join(fake.directory, "s", "box", "token");
  const kept = readFileSync(token, "utf8");
  writeFileSync(token, "not a token");
  fake.host = await fake.open();
  expect(fake.host.store.sandbox("box")?.unready).toContain("token");
  expect(fake.host.turn("t-1").ended_at).toBeNull();
  expect(fake.warnings.join()).toContain("sandbox box can't be taken up");
  expect(fake.host.store.sandbox("other")?.unready).toBeNull();
  await until("the other's welcome", () => good.dial().then((result) => result === "welcome"));
  good.end();
  await until("the other's end", () => fake.host.turn("t-2").ended_at !== null);
  // What was broken is mended, and the turn is followed as if nothing had been.
  writeFileSync(token, kept);
  await Promise.all([fake.host.startSandbox("box"), dialAgain(fake)]);
  expect(fake.host.store.sandbox("box")?.unready).toBeNull();
  fake.bridge().end();
  await until("the settlement", () => fake.host.turn("t-1").state === "settled");
});
