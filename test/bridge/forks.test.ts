import { expect, test } from "vitest";
import type { NativeFork } from "../../bridge/drivers/driver.ts";
import { createForks } from "../../bridge/forks.ts";
import type { Member } from "../../bridge/member.ts";
import type { copySlotState, SlotCopy } from "../../bridge/slot-copy.ts";
import type { Slot } from "../../bridge/slots.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { PARAMS, RESULTS } from "../support/samples.ts";

const NATIVE: NativeFork = { when: "at_once", state: "data/cli", except: ["*-shm"] };
const ASKED = PARAMS["member.fork"];
const SESSION = RESULTS["member.fork"].session;

function scene(options: { native?: NativeFork | null; copy?: typeof copySlotState; fork?: () => void } = {}) {
  const calls: string[] = [];
  const copies: SlotCopy[] = [];
  const numbers = new Map<string, number>([["m-1", 3]]);
  const open = new Set<string>();
  const member = (id: string) =>
    ({
      async atRest(work: (slot: Slot) => Promise<unknown>) {
        calls.push(`${id} rests`);
        try {
          return await work({ member: id } as Slot);
        } finally {
          calls.push(`${id} goes on`);
        }
      },
      async fork() {
        calls.push(`${id} forks`);
        options.fork?.();
        return SESSION;
      },
    }) as unknown as Member;
  const clock = new FakeClock();
  const forks = createForks({
    clock,
    memberOf: member,
    forkOf: () => (options.native === undefined ? NATIVE : options.native),
    hasOpenTurn: (id) => open.has(id),
    lastNumber: (id) => numbers.get(id) ?? 0,
    copy:
      options.copy ??
      (async (copy) => {
        copies.push(copy);
        calls.push("copied");
      }),
  });
  return { clock, forks, calls, copies, numbers, open };
}

test("the parent rests while its state is copied, and the child's CLI forks the copy afterwards", async () => {
  const { forks, calls, copies } = scene();
  expect(await forks.fork(ASKED)).toEqual({ session: SESSION });
  expect(calls).toEqual(["m-1 rests", "m-2 rests", "copied", "m-2 goes on", "m-1 goes on", "m-2 forks"]);
  expect(copies).toMatchObject([
    { from: { member: "m-1" }, to: { member: "m-2" }, path: "data/cli", except: ["*-shm"] },
  ]);
  expect(forks.isForking("m-2")).toBe(false);
});

test("two at once are one; of another parent it is refused; afterwards it is made anew", async () => {
  const gate = Promise.withResolvers<void>();
  const { forks, calls } = scene({ copy: () => gate.promise });
  const [first, second] = [forks.fork(ASKED), forks.fork(ASKED)];
  await expect(forks.fork({ ...ASKED, parent: "m-9" })).rejects.toMatchObject({ code: "REQUEST_INVALID" });
  expect(forks.isForking("m-2")).toBe(true);
  gate.resolve();
  expect(await first).toEqual(await second);
  expect(calls.filter((call) => call === "m-2 forks")).toHaveLength(1);
  await forks.fork(ASKED);
  expect(calls.filter((call) => call === "m-2 forks")).toHaveLength(2);
});

test("a CLI without a fork, a child with turns and a parent that moved on are refused, and nothing is copied", async () => {
  const code = async (given: ReturnType<typeof scene>) =>
    given.forks.fork(ASKED).then(
      () => "forked",
      (error: HoldfastError) => error.code,
    );
  expect(await code(scene({ native: null }))).toBe("FORK_UNSUPPORTED");
  const used = scene();
  used.numbers.set("m-2", 1);
  expect(await code(used)).toBe("REQUEST_INVALID");
  const moved = scene();
  moved.numbers.set("m-1", 4);
  expect(await code(moved)).toBe("MEMBER_BUSY");
  const busy = scene();
  busy.open.add("m-1");
  expect(await code(busy)).toBe("MEMBER_BUSY");
  for (const { calls } of [used, moved, busy]) expect(calls).toEqual([]);
});

const lost = () => new HoldfastError("CONTEXT_LOST", "the history lacks the last settled turn");

test("a copy without the last settled turn came too early: it is made again, and the parent may rest in between", async () => {
  let early = 2;
  const { clock, forks, calls } = scene({
    fork() {
      early -= 1;
      if (early >= 0) throw lost();
    },
  });
  const forking = forks.fork(ASKED);
  for (const _again of [1, 2]) {
    await settled();
    expect(calls.at(-1)).toBe("m-2 forks");
    await clock.elapse(500);
  }
  expect(await forking).toEqual({ session: SESSION });
  expect(calls.filter((call) => call === "copied")).toHaveLength(3);
});

test("a parent that takes a turn while its fork waits for its history is left alone", async () => {
  const { clock, forks, open, copies } = scene({
    fork() {
      throw lost();
    },
  });
  const forking = expect(forks.fork(ASKED)).rejects.toMatchObject({ code: "MEMBER_BUSY" });
  await settled();
  open.add("m-1");
  await clock.elapse(500);
  await forking;
  expect(copies).toHaveLength(1);
});

test("what is lost stays lost: some copies later the fork has failed", async () => {
  const { clock, forks, copies } = scene({
    fork() {
      throw lost();
    },
  });
  const forking = expect(forks.fork(ASKED)).rejects.toMatchObject({ code: "CONTEXT_LOST" });
  for (let copy = 1; copy < 5; copy += 1) {
    await settled();
    await clock.elapse(500);
  }
  await forking;
  expect(copies).toHaveLength(5);
});

test("a copy that fails ends the fork, lets the parent go on, and leaves nothing under way", async () => {
  const { forks, calls } = scene({ copy: () => Promise.reject(new HoldfastError("DISK_FULL", "full")) });
  await expect(forks.fork(ASKED)).rejects.toMatchObject({ code: "DISK_FULL" });
  expect(calls.at(-1)).toBe("m-1 goes on");
  await settled();
  await forks.stop();
  expect(forks.isForking("m-2")).toBe(false);
});
