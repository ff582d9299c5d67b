import { expect, test } from "vitest";
import { withoutAddresses } from "../../../bridge/drivers/addresses.ts";

test.for([
  ["connect ECONNREFUSED 127.0.0.1:4096", "connect ECONNREFUSED [address]"],
  ["POST https://provider.example/v1/messages?beta=true (529)", "POST [address] (529)"],
  ["at [::1]:80 and localhost:8080, then", "at [address] and [address], then"],
  ["ws://10.0.0.1:1/x failed", "[address] failed"],
  ["version 1.2.3 of localhost", "version 1.2.3 of localhost"],
] as const)("%s", ([text, expected]) => {
  expect(withoutAddresses(text)).toBe(expected);
});
