import { expect, test } from "vitest";
import { catchUp } from "../../controller/catch-up.ts";
import type { SandboxLink } from "../../controller/sandbox-link.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Result } from "../../protocol/methods.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { passingUntil } from "../support/fake-host.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { simpleRig } from "./store/rig.ts";

type Status = Result<"bridge.status">;

function scene(status: Partial<Status>, abort: (turn: string) => void = () => undefined) {
  const rig = simpleRig();
  const clock = new FakeClock();
  const told: Status = { members: [], openTurns: [], numbers: [], ...status };
  const aborted: string[] = [];
  const warnings: string[] = [];
  const link = {
    async request(method: string, params: { turn: string }) {
      if (method === "bridge.status") return told;
      aborted.push(params.turn);
      abort(params.turn);
      return {};
    },
  } as unknown as SandboxLink;
  const run = () =>
    catchUp({
      sandboxId: "box",
      link,
      store: rig.store,
      clock,
      onWarning: (what, detail) => warnings.push(`${what}: ${detail}`),
    });
  return { rig, clock, told, aborted, warnings, run };
}

test("a bridge that knows no more than the store changes nothing", async () => {
  const { rig, aborted, warnings, run } = scene({
    openTurns: [{ turn: "t-1", member: "m-1", number: 1 }],
    numbers: [{ member: "m-1", number: 1 }],
  });
  rig.admit("t-1");
  await run();
  expect(aborted).toEqual([]);
  expect(warnings).toEqual([]);
  expect(rig.store.member("m-1")).toMatchObject({ submissions: 1, must_prove: null });
});

test("numbers that the store does not have are gone on from, and their members are proven", async () => {
  const { rig, warnings, run } = scene({
    numbers: [
      { member: "m-1", number: 7 },
      { member: "m-9", number: 3 },
    ],
  });
  await run();
  expect(rig.store.member("m-1")).toMatchObject({
    submissions: 7,
    must_prove: "the store is older than the sandbox",
  });
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("m-1");
  await run();
  expect(warnings).toHaveLength(1);
  rig.admit("t-8");
  expect(rig.store.turn("t-8")?.number).toBe(8);
});

test("a turn that nobody waits for is ended, and its end awaited: unknown here, or not here at all", async () => {
  const { rig, told, aborted, clock, run } = scene({
    openTurns: [
      { turn: "t-1", member: "m-1", number: 1 },
      { turn: "t-7", member: "m-2", number: 7 },
      { turn: "t-2", member: "m-2", number: 8 },
    ],
  });
  rig.member("m-2");
  rig.admit("t-1");
  rig.store.end("t-1", { ...SETTLEMENT, outcome: "unknown", settled: false });
  rig.admit("t-2", "m-2");
  let hasEnded = false;
  const running = run().then(() => {
    hasEnded = true;
  });
  await clock.elapse(1000);
  expect(aborted).toEqual(["t-1", "t-7"]);
  expect(hasEnded).toBe(false);
  told.openTurns.splice(0, 2);
  await clock.elapse(1000);
  await settled();
  expect(hasEnded).toBe(true);
  await running;
});

test("one that ended meanwhile is no fault; one that never ends is, in bounded time", async () => {
  const orphan = () => ({ openTurns: [{ turn: "t-7", member: "m-1", number: 7 }] });
  const gone = scene(orphan(), () => {
    gone.told.openTurns.length = 0;
    throw new HoldfastError("ABORT_NO_TURN");
  });
  await passingUntil(gone.clock, "the end", gone.run());
  const stuck = scene(orphan());
  expect(await passingUntil(stuck.clock, "the limit", stuck.run())).toMatchObject({ code: "OVERLOADED" });
  const broken = scene(orphan(), () => {
    throw new HoldfastError("LINK_CLOSED");
  });
  await expect(broken.run()).rejects.toMatchObject({ code: "LINK_CLOSED" });
});
