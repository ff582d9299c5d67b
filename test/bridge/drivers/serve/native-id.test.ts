import fc from "fast-check";
import { expect, test } from "vitest";
import { createNativeIds } from "../../../../bridge/drivers/serve/native-id.ts";

const timeOf = (id: string) => BigInt(`0x${id.slice(4, 16)}`);

test("an id has the native format: prefix, 12 hex digits of the time, 14 base-62 characters", () => {
  const next = createNativeIds(() => 1_796_049_136_096);
  expect(next("msg")).toMatch(/^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$/);
  expect(next("prt")).toMatch(/^prt_[0-9a-f]{12}[0-9A-Za-z]{14}$/);
});

test("its time is the one that the CLI itself writes: the recorded message of that millisecond sorts beside it", () => {
  // captures/opencode/sse-turn-plain.ndjson: created 1796049136096, id msg_22cdee9e0001uQAH9jlWxTz36n.
  const next = createNativeIds(() => 1_796_049_136_096);
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
        const next = createNativeIds(() => times[at] ?? 0);
        const ids = times.map((_, index) => {
          at = index;
          return next(index % 2 === 0 ? "msg" : "prt");
        });
        for (let index = 1; index < ids.length; index += 1) {
          expect(timeOf(ids[index] ?? "")).toBeGreaterThan(timeOf(ids[index - 1] ?? ""));
        }
        expect(new Set(ids.map((id) => id.slice(4))).size).toBe(ids.length);
      },
    ),
  );
});

test("a fraction of a millisecond is no fault", () => {
  expect(createNativeIds(() => 1_796_049_136_096.75)("msg")).toMatch(/^msg_22cdee9e0/);
});
