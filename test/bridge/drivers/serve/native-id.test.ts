import fc from "fast-check";
import { expect, test } from "vitest";
import { createNativeIds } from "../../../../bridge/drivers/serve/native-id.ts";

const ids = (nowAt: () => number, ordersById = true) => createNativeIds(nowAt, ordersById);
const MS = 1_796_049_136_096;

const timeOf = (id: string) => BigInt(`0x${id.slice(4, 16)}`);

test("an id has the native format: prefix, 12 hex digits of the time, 14 base-62 characters", () => {
  const { next } = ids(() => MS);
  expect(next("msg")).toMatch(/^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$/);
  expect(next("prt")).toMatch(/^prt_[0-9a-f]{12}[0-9A-Za-z]{14}$/);
});

test("its time is the one that the CLI itself writes: the recorded message of that millisecond sorts beside it", () => {
  // captures/opencode/sse-turn-plain.ndjson: created 1796049136096, id msg_22cdee9e0001uQAH9jlWxTz36n.
  const { next } = ids(() => MS);
  expect(next("msg").slice(0, 13)).toBe("msg_22cdee9e0001uQAH9jlWxTz36n".slice(0, 13));
});

test("ids rise whatever the clock does, and never repeat", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1_700_000_000_000, max: 1_700_000_000_050 }), {
        minLength: 2,
        maxLength: 50,
      }),
      (times) => {
        let at = 0;
        const { next } = ids(() => times[at] ?? 0);
        const made = times.map((_, index) => {
          at = index;
          return next(index % 2 === 0 ? "msg" : "prt");
        });
        for (let index = 1; index < made.length; index += 1) {
          expect(timeOf(made[index] ?? "")).toBeGreaterThan(timeOf(made[index - 1] ?? ""));
        }
        expect(new Set(made.map((id) => id.slice(4))).size).toBe(made.length);
      },
    ),
  );
});

test("a fraction of a millisecond is no fault", () => {
  expect(ids(() => MS + 0.75).next("msg")).toMatch(/^msg_22cdee9e0/);
});

/** A native id of that millisecond, as the CLI writes it. */
const native = (ms: number, prefix = "msg") =>
  `${prefix}_${((BigInt(ms) * 4096n + 1n) % 2n ** 48n).toString(16).padStart(12, "0")}${"A".repeat(14)}`;

const BEHIND = expect.objectContaining({ code: "CLOCK_BEHIND" });

test("an id is greater than the newest of the history, also when that lies a little ahead of the clock", () => {
  const { next, saw, check } = ids(() => MS);
  for (const seen of [native(MS - 5000), native(MS + 1500), native(MS - 1)]) saw(seen);
  check();
  const made = next("msg");
  expect(made > native(MS + 1500)).toBe(true);
  expect(next("msg") > made).toBe(true);
});

test("ids rise over any history that passes the check", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -10_000_000, max: 2000 }), { maxLength: 20 }), (offsets) => {
      const { next, saw, check } = ids(() => MS);
      const history = offsets.map((offset) => native(MS + offset));
      for (const id of history) saw(id);
      check();
      const made = next("msg");
      for (const id of history) expect(made > id).toBe(true);
    }),
  );
});

test("a newest id in the future is CLOCK_BEHIND, with the distance, before anything is sent", () => {
  const { saw, check } = ids(() => MS);
  saw(native(MS + 3_600_000));
  expect(check).toThrow(BEHIND);
  expect(check).toThrow("3600000 ms ahead of the clock");
});

test("the clock that was set right again passes, and ids go on above the history", () => {
  let nowAt = MS;
  const { next, saw, check } = ids(() => nowAt);
  saw(native(MS + 60_000));
  expect(check).toThrow(BEHIND);
  nowAt += 61_000;
  check();
  expect(next("msg") > native(MS + 60_000)).toBe(true);
});

test("a clock that is set back while we run is found too: our own newest id lies ahead then", () => {
  let nowAt = MS;
  const { next, check } = ids(() => nowAt);
  next("msg");
  nowAt -= 10_000;
  expect(check).toThrow(BEHIND);
});

test("where history is not ordered by ids, no clock is behind", () => {
  const { saw, check } = ids(() => MS, false);
  saw(native(MS + 3_600_000));
  expect(check).not.toThrow();
});

test("ids of other formats are passed over: a chosen suffix, a part without time, another length", () => {
  const { saw, check, next } = ids(() => MS);
  for (const id of ["msg_t1", "", "msg_", "msg_ffffffffffff", `msg_${"f".repeat(12)}short`, "x".repeat(300)])
    saw(id);
  saw(`msg_${"f".repeat(12)}${"A".repeat(15)}`);
  check();
  expect(next("msg").slice(0, 13)).toBe(native(MS).slice(0, 13));
});

test("48 bits wrap every two years: what is just before the wrap is old, what is just after it is new", () => {
  const wrap = Number(((2n ** 48n * 100n) / 4096n).toString());
  const justAfter = ids(() => wrap + 500);
  justAfter.saw(native(wrap - 500));
  justAfter.check();
  expect(timeOf(justAfter.next("msg"))).toBeLessThan(timeOf(native(wrap - 500)));
  const justBefore = ids(() => wrap - 500);
  justBefore.saw(native(wrap + 500));
  justBefore.check();
  const behind = ids(() => wrap - 500);
  behind.saw(native(wrap + 60_000));
  expect(behind.check).toThrow(BEHIND);
});
