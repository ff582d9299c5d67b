// How turns wait for their start, and how idle processes go, seen through a host.
import { expect, test } from "vitest";
import type { HostOptions } from "../../controller/host.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { idle, passing, startFakeHost } from "../support/fake-host.ts";
import { RESULTS } from "../support/samples.ts";
import { until, within } from "../support/until.ts";

async function scene(residency: NonNullable<HostOptions["residency"]>) {
  const clock = new FakeClock();
  const fake = await startFakeHost({ clock, residency });
  const members = [fake.member(), fake.member(), fake.member()];
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const ready = (member: string) =>
    bridge.emit({ type: "member.process", member, processGeneration: 1, state: "ready", detail: "" });
  return { clock, fake, bridge, ready, members, host: fake.host };
}

test("turns are sent as their members' processes start, one after the other, and keep how long they waited", async () => {
  const { clock, fake, bridge, ready, members, host } = await scene({ starts: 1 });
  const turns = members.map((member, at) => host.submit(member, "hello", { id: `t-${at}` }));
  await bridge.untilAsked("turn.submit");
  await clock.elapse(700);
  expect(bridge.submissions().map(({ turn }) => turn)).toEqual(["t-0"]);
  expect(host.report().queue.map(({ turn }) => turn)).toEqual(["t-1", "t-2"]);
  for (const [at, member] of members.entries()) {
    ready(member);
    if (at < 2) await bridge.untilAsked("turn.submit", at + 2);
    await clock.elapse(300);
  }
  expect(bridge.submissions().map(({ turn }) => turn)).toEqual(["t-0", "t-1", "t-2"]);
  expect(turns.map(({ id }) => host.turn(id).queued_ms)).toEqual([0, 700, 1000]);
  expect(host.report()).toMatchObject({ queue: [], members: 3 });
  expect(host.report().residents.map(({ turn }) => turn)).toEqual(["t-0", "t-1", "t-2"]);
  expect(fake.onDisk("SELECT count(*) AS n FROM turns WHERE launch IS NULL")).toEqual([{ n: 0 }]);
});

test("a turn that is ended while it waits is not sent, at once, and the next one moves up", async () => {
  const { clock, bridge, ready, members, host } = await scene({ starts: 1 });
  const [first = "", second = "", third = ""] = members;
  host.submit(first, "hello");
  await bridge.untilAsked("turn.submit");
  const waits = host.submit(second, "hello", { id: "t-2" });
  host.submit(third, "hello", { id: "t-3" });
  await clock.elapse(100);
  await waits.abort();
  expect(await within("its end", waits.settlement)).toMatchObject({
    outcome: "not_sent",
    error: { code: "OVERLOADED", message: "it was ended while it waited for a start" },
  });
  ready(first);
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission().turn).toBe("t-3");
});

test("a stopped sandbox, and a controller that closes, leave nobody waiting", async () => {
  const stopped = await scene({ starts: 1 });
  stopped.host.submit(stopped.members[0] ?? "", "hello");
  await stopped.bridge.untilAsked("turn.submit");
  const waits = stopped.host.submit(stopped.members[1] ?? "", "hello");
  const stopping = stopped.host.stopSandbox("box", { abort: true });
  expect(await within("its end", waits.settlement)).toMatchObject({ outcome: "not_sent" });
  await passing(stopped.clock, "the stop", async () => {
    await Promise.race([stopping, Promise.resolve()]);
    return stopped.fake.sandboxes.count("stop") > 0;
  });

  const closed = await scene({ starts: 1 });
  closed.host.submit(closed.members[0] ?? "", "hello").settlement.catch(() => undefined);
  await closed.bridge.untilAsked("turn.submit");
  const left = closed.host.submit(closed.members[1] ?? "", "hello", { id: "t-left" });
  left.settlement.catch(() => undefined);
  await closed.host.close();
  expect(closed.fake.onDisk("SELECT state FROM turns WHERE id = 't-left'")).toEqual([{ state: "not_sent" }]);
  expect(closed.bridge.submissions()).toHaveLength(1);
});

test("too many that wait are refused without being sent", async () => {
  const { bridge, members, host } = await scene({ starts: 1, waiting: 1 });
  host.submit(members[0] ?? "", "hello");
  host.submit(members[1] ?? "", "hello");
  const refused = host.submit(members[2] ?? "", "hello");
  expect(await refused.settlement).toMatchObject({ outcome: "not_sent", error: { code: "OVERLOADED" } });
  await bridge.untilAsked("turn.submit");
  expect(bridge.submissions()).toHaveLength(1);
});

test("an idle member's process is retired by its bridge, and the report forgets it", async () => {
  const { clock, bridge, ready, members, host } = await scene({ idleMs: 60_000 });
  const [member = ""] = members;
  const turn = host.submit(member, "hello");
  await bridge.untilAsked("turn.submit");
  ready(member);
  bridge.answers["bridge.status"] = async () => ({
    ...RESULTS["bridge.status"],
    members: RESULTS["bridge.status"].members.map((entry) => ({ ...entry, member, rssBytes: 400e6 })),
  });
  await idle(clock, 70_000);
  expect(bridge.paramsOf("member.retire")).toEqual([]);
  expect(host.report().residents).toMatchObject([{ member, rssBytes: 400e6, turn: turn.id }]);
  bridge.end();
  await turn.settlement;
  await idle(clock, 80_000);
  expect(bridge.paramsOf("member.retire")).toEqual([{ member }]);
  expect(host.report().residents).toEqual([]);
});

test("what an earlier controller left resident is listened for after a restart, and nothing is started for it", async () => {
  const { fake, bridge, ready, members } = await scene({});
  ready(members[0] ?? "");
  await until("its record", () => fake.host.report().residents.length === 1);
  bridge.vanish();
  const { sandboxes } = fake;
  const starts = sandboxes.count("start");
  const next = await fake.reopen();
  // Its bridge dials again, and says that nothing is there any more.
  expect(await bridge.dial()).toBe("welcome");
  await until("the bridge's word", () => next.report().residents.length === 0);
  expect(sandboxes.count("start")).toBe(starts);
});
