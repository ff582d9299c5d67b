import fc from "fast-check";
import { expect, test } from "vitest";
import { simulatePrefixCache } from "../../../controller/relay/simulated-cache.ts";
import { chatBody, digestOf } from "./calls.ts";

const of = (...texts: string[]) => digestOf(chatBody(texts));
const bytesOf = ({ tools, system, blocks }: ReturnType<typeof of>) =>
  [tools, system, ...blocks].reduce((sum, { bytes }) => sum + bytes, 0);

test("it says that it is simulated, and knows no share of nothing", () => {
  expect(simulatePrefixCache([])).toEqual({
    isSimulated: true,
    requests: 0,
    inputBytes: 0,
    repeatedBytes: 0,
    repeatedShare: null,
  });
});

test("a first request repeats nothing; one that goes on repeats all of the one before it", () => {
  const [first, second] = [of("a"), of("a", "b", "c")];
  expect(simulatePrefixCache([first])).toMatchObject({ repeatedBytes: 0, repeatedShare: 0 });
  expect(simulatePrefixCache([first, second])).toMatchObject({
    requests: 2,
    inputBytes: bytesOf(first) + bytesOf(second),
    repeatedBytes: bytesOf(first),
  });
});

test("behind a block that changed nothing is repeated, even what is the same again", () => {
  const [before, after] = [of("a", "b", "c"), of("a", "B", "c")];
  const { repeatedBytes } = simulatePrefixCache([before, after]);
  expect(repeatedBytes).toBe(bytesOf(of("a")));
});

test("another model's requests repeat nothing, and a fork repeats what both began with", () => {
  const other = digestOf({ ...chatBody(["a"]), model: "m2" });
  expect(simulatePrefixCache([of("a"), other]).repeatedBytes).toBe(0);
  const { repeatedBytes } = simulatePrefixCache([of("a", "b"), of("a", "c"), of("a", "b", "d")]);
  expect(repeatedBytes).toBe(bytesOf(of("a")) + bytesOf(of("a", "b")));
});

test("the share is from 0 to 1, and the same requests again repeat everything", () => {
  const histories = fc.array(fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 4 }), {
    minLength: 1,
    maxLength: 6,
  });
  fc.assert(
    fc.property(histories, (all) => {
      const requests = all.map((texts) => of(...texts));
      const once = simulatePrefixCache(requests);
      expect(once.repeatedBytes <= once.inputBytes).toBe(true);
      const twice = simulatePrefixCache([...requests, ...requests]);
      expect(twice.repeatedBytes - once.repeatedBytes).toBe(once.inputBytes);
    }),
    { numRuns: 100 },
  );
});
