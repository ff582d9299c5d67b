import { expect, test } from "vitest";
import { calibrated, estimateTokens } from "../../../controller/relay/token-estimate.ts";

const of = (value: unknown) =>
  estimateTokens(Buffer.from(typeof value === "string" ? value : JSON.stringify(value)));

test("three ASCII characters are a token, any other one is two", () => {
  expect(of("abcdef not json")).toBe(5);
  for (const nothing of ["", "{}"]) expect(of(nothing)).toBe(1);
  expect(of("größe 😀!")).toBe(Math.ceil(6 / 3 + 3 * 2));
});

test("a request counts with all that it says, and each message with 16 more", () => {
  const one = of({ messages: [{ content: "abc" }] });
  const two = of({ messages: [{ content: "abc" }, { content: "abc" }] });
  expect(two - one).toBeGreaterThanOrEqual(16);
  expect(of({ messages: [], tools: [{ description: "x".repeat(3000) }] })).toBeGreaterThan(1000);
  expect(of({ input: [{ content: "abc" }] })).toBeGreaterThan(16);
});

test("an image counts as one, and not as its letters", () => {
  const image = "A".repeat(3_000_000);
  const anthropic = { messages: [{ content: [{ type: "image", source: { type: "base64", data: image } }] }] };
  const openai = {
    messages: [{ content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${image}` } }] }],
  };
  for (const request of [anthropic, openai]) {
    expect(of(request)).toBeGreaterThanOrEqual(4096);
    expect(of(request)).toBeLessThan(5000);
  }
});

test("more is never estimated at less", () => {
  let before = 0;
  for (let length = 0; length < 50; length += 1) {
    const now = of({ messages: [{ role: "user", content: "ü".repeat(length) }] });
    expect(now).toBeGreaterThan(before);
    before = now;
  }
});

test("a request nested without end is estimated like any other", () => {
  expect(of(`${"[".repeat(200_000)}"abc"${"]".repeat(200_000)}`)).toBe(1);
});

test("S14: what the provider counted, times 1.1, stands for what is common, and the estimate for what was appended", () => {
  expect(calibrated(1000, { estimate: 1000, input: 600 })).toBe(660);
  expect(calibrated(1300, { estimate: 1000, input: 600 })).toBe(960);
  expect(calibrated(1300, { estimate: 1000, input: 601 })).toBe(962);
  // In both directions: an estimate that was too low is raised.
  expect(calibrated(1300, { estimate: 1000, input: 2000 })).toBe(2500);
  expect(calibrated(10, { estimate: 10, input: 10 })).toBe(11);
  expect(calibrated(1300, null)).toBe(1300);
  expect(calibrated(999, { estimate: 1000, input: 600 })).toBe(999);
});
