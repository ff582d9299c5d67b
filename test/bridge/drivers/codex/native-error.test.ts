import { expect, test } from "vitest";
import { nativeError, waitingReason } from "../../../../bridge/drivers/codex/native-error.ts";

test("codex's own word is the name, whatever form it has", () => {
  expect(nativeError({ message: "full", codexErrorInfo: "contextWindowExceeded" })).toEqual({
    name: "contextWindowExceeded",
    message: "full",
  });
  const info = { responseTooManyFailedAttempts: { httpStatusCode: 429 } };
  expect(nativeError({ message: "x", codexErrorInfo: info }).name).toBe("responseTooManyFailedAttempts");
  expect(nativeError({ message: "x" }).name).toBe("other");
  expect(nativeError({ message: "x", codexErrorInfo: {} }).name).toBe("other");
  expect(nativeError({ message: "x", codexErrorInfo: null }).name).toBe("other");
});

test("of a refused request's body the provider's message is kept, and nothing else", () => {
  const body = { error: { message: "no such thing", type: "x", request: "secret" } };
  expect(nativeError({ message: JSON.stringify(body) }).message).toBe("no such thing");
  for (const text of ["null", "[]", '{"error":"x"}', '{"error":{"message":7}}'])
    expect(nativeError({ message: text }).message).toBe(text);
});

test.each([
  [
    "unexpected status 401 Unauthorized: no, url: http://127.0.0.1:41/v1/responses",
    "unexpected status 401 Unauthorized: no",
  ],
  ["see https://example.test/a?b=c for it", "see [address] for it"],
  ["connect 10.1.2.3:443 or [::1]:8080 or localhost:99", "connect [address] or [address] or [address]"],
])("addresses are left out: %s", (message, left) => {
  expect(nativeError({ message }).message).toBe(left);
});

test("a wait has its cause, not that it is one", () => {
  const error = { message: "Reconnecting... 1/7", additionalDetails: "last status: 429, url: http://x/y" };
  expect(waitingReason(error)).toBe("last status: 429");
  expect(waitingReason({ ...error, additionalDetails: null })).toBe("Reconnecting... 1/7");
  expect(waitingReason({ ...error, additionalDetails: "" })).toBe("Reconnecting... 1/7");
});
