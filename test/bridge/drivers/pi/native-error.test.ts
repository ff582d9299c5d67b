import { expect, test } from "vitest";
import { providerError } from "../../../../bridge/drivers/pi/native-error.ts";
import { LIMITS } from "../../../../protocol/limits.ts";

test.each([
  ["connect ECONNREFUSED 127.0.0.1:4711", "connect ECONNREFUSED [address]"],
  ["connect ECONNREFUSED [::1]:80", "connect ECONNREFUSED [address]"],
  ["POST https://api.example.com/v1/x?key=secret failed", "POST [address] failed"],
  ["getaddrinfo for localhost:8080", "getaddrinfo for [address]"],
  ['400: {"message":"the quota is spent"}', '400: {"message":"the quota is spent"}'],
  ["[a] list and a [dead] end", "[a] list and a [dead] end"],
])("%s is told as %s", (text, told) => {
  expect(providerError(text).message).toBe(told);
});

test("an error has a name, and is no longer than the wire allows", () => {
  const { name, message } = providerError("x".repeat(10_000));
  expect(name).toBe("ProviderError");
  expect(message).toHaveLength(LIMITS.reasonChars);
});
