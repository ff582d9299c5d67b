import { expect, test } from "vitest";
import type { TokenUsage } from "../../../../bridge/drivers/codex/native-message.ts";
import { createUsageBook } from "../../../../bridge/drivers/codex/usage-book.ts";
import { NO_USAGE } from "../../../../protocol/usage.ts";

type Tokens = TokenUsage["last"];

function tokens(inputTokens: number, outputTokens: number, more: Partial<Tokens> = {}): Tokens {
  return {
    totalTokens: inputTokens + outputTokens,
    inputTokens,
    cachedInputTokens: 0,
    cacheWriteInputTokens: 0,
    outputTokens,
    reasoningOutputTokens: 0,
    ...more,
  };
}
const usage = (total: Tokens, last: Tokens): TokenUsage => ({ total, last });
const FIRST = usage(tokens(100, 10), tokens(100, 10));
const SECOND = usage(tokens(200, 20), tokens(100, 10));

test("cached tokens are no input of ours, and reasoning no output", () => {
  const book = createUsageBook(null);
  const last = tokens(1234, 56, {
    cachedInputTokens: 200,
    cacheWriteInputTokens: 34,
    reasoningOutputTokens: 6,
  });
  book.update(usage(last, last));
  expect(book.sum()).toEqual({
    source: "cli",
    inputTokens: 1000,
    outputTokens: 50,
    reasoningTokens: 6,
    cacheReadTokens: 200,
    cacheWriteTokens: 34,
  });
});

test("the requests of a turn are summed, those of earlier turns are not", () => {
  const book = createUsageBook(FIRST);
  book.update(SECOND);
  book.update(usage(tokens(250, 25), tokens(50, 5)));
  expect(book.sum()).toMatchObject({ source: "cli", inputTokens: 150, outputTokens: 15 });
});

test("a turn of which nothing was stated has no usage, and no zero", () => {
  expect(createUsageBook(FIRST).sum()).toEqual(NO_USAGE);
});

test("figures that only come again are no statement: the sum is unknown", () => {
  const book = createUsageBook(null);
  book.update(FIRST);
  book.update(FIRST);
  expect(book.sum()).toEqual({ ...NO_USAGE, source: "cli" });
});

test("behind a stream that was cut they are nothing at all", () => {
  const book = createUsageBook(FIRST);
  book.update(FIRST);
  book.failed();
  book.update(SECOND);
  expect(book.sum()).toMatchObject({ source: "cli", inputTokens: 100, outputTokens: 10 });
});

test("a failed request takes back its own repeat only, and none before it", () => {
  const book = createUsageBook(FIRST);
  book.update(FIRST);
  book.update(SECOND);
  book.failed();
  expect(book.sum()).toEqual({ ...NO_USAGE, source: "cli" });
});

test("codex's own estimates of a full window and of a compaction are no statements", () => {
  const book = createUsageBook(SECOND);
  const full = usage(tokens(0, 0, { totalTokens: 258_400 }), tokens(0, 0, { totalTokens: 257_000 }));
  book.update(full);
  book.update(full);
  book.update(usage(tokens(100, 10, { totalTokens: 258_510 }), tokens(100, 10)));
  book.update(usage(tokens(100, 10, { totalTokens: 258_510 }), tokens(0, 0, { totalTokens: 6051 })));
  book.update(usage(tokens(200, 20, { totalTokens: 258_620 }), tokens(100, 10)));
  expect(book.sum()).toMatchObject({ source: "cli", inputTokens: 200, outputTokens: 20 });
});

test("a zero that is stated is a zero", () => {
  const book = createUsageBook(FIRST);
  book.update(usage(FIRST.total, tokens(0, 0)));
  expect(book.sum()).toMatchObject({ source: "cli", inputTokens: 0, outputTokens: 0 });
});
