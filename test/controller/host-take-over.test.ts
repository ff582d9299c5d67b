// Two controllers for one store: the second is refused, or takes over when it is told to, and the first notices.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openHost } from "../../controller/host.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { dialAgain, idle, startFakeHost } from "../support/fake-host.ts";
import { until } from "../support/until.ts";

const failed = (code: string) => expect.objectContaining({ code });

/** A host with a running turn, and another one for the same store. */
async function two() {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const turn = fake.host.submit(member, "hello", { id: "t-1" });
  turn.settlement.catch(() => undefined);
  const bridge = fake.bridge();
  bridge.answers["turn.recover"] = async () => ({ state: "active" });
  await bridge.untilAsked("turn.submit");
  const old = fake.host;
  // What was on its way before the take-over is the old one's to apply, and no attempt to write behind it.
  await until("the turn's first event", () => old.store.eventsOf("t-1").length > 0);
  const options = {
    directory: fake.directory,
    drivers: [fake.sandboxes],
    relay: { routes: [] },
  };
  await expect(openHost(options)).rejects.toEqual(failed("STORE_OWNED"));
  const next = await openHost({ ...options, takeOver: true });
  fake.host = next;
  onTestFinished(() => old.close());
  return { fake, clock, member, turn, bridge, old, next };
}

test("the old one writes and sends nothing any more, from the very take-over on", async () => {
  const { old, member, bridge, turn } = await two();
  expect(() => old.submit(member, "more")).toThrow(failed("FENCED"));
  expect(() => old.recordInspection("t-1", "seen")).toThrow(failed("FENCED"));
  expect(() =>
    old.createMember({ sandbox: "box", cli: "opencode", model: old.member(member).options.model }),
  ).toThrow(failed("FENCED"));
  await expect(old.stopSandbox("box", { abort: true })).rejects.toEqual(failed("FENCED"));
  await expect(turn.abort()).rejects.toEqual(failed("FENCED"));
  expect(bridge.paramsOf("turn.abort")).toEqual([]);
  expect(bridge.submissions()).toHaveLength(1);
});

test("it notices by itself, fails its handles with the reason, lets go of its links, and its sockets are its successor's", async () => {
  const { fake, clock, turn, bridge, old, next } = await two();
  const before = bridge.closes.length;
  await idle(clock, 3000);
  await expect(turn.settlement).rejects.toEqual(failed("FENCED"));
  await until("the end of its link", () => bridge.closes.length > before);
  expect(fake.warnings.join()).toContain("this controller drives nothing any more");
  await old.close();
  for (const name of ["ctl.sock", "model.sock"])
    expect(existsSync(join(fake.directory, "s", "box", name))).toBe(true);
  await dialAgain(fake);
  bridge.end();
  const settlement = await next.running("t-1")?.settlement;
  expect(settlement).toMatchObject({ outcome: "completed" });
  expect(bridge.submissions()).toHaveLength(1);
  expect(bridge.welcomes.at(-1)?.fence).toBe(2);
});

test("an event that reaches it first is not applied by it, and comes to its successor once", async () => {
  const { fake, bridge, old, next } = await two();
  bridge.end();
  await until("the end of its link", () => bridge.closes.length > 0);
  expect(bridge.acked).toBeLessThan(bridge.head);
  expect(next.turn("t-1").ended_at).toBeNull();
  await dialAgain(fake);
  await until("the settlement", () => next.turn("t-1").state === "settled");
  expect(next.member(next.turn("t-1").member).settled_turns).toBe(1);
  expect(old.turn("t-1").state).toBe("settled");
});
