import { expect, test } from "vitest";
import type { Slot } from "../../bridge/slots.ts";
import { surroundings } from "../../bridge/surroundings.ts";

const SLOT = { root: "/home/slots/m-1" } as Slot;
const LOOPBACK = "127.0.0.1,localhost";

test("of the bridge's own environment nothing passes but proxies", () => {
  const own = {
    PATH: "/x",
    HOME: "/root",
    SECRET: "s",
    LD_PRELOAD: "/x.so",
    NODE_OPTIONS: "-r x",
    LC_ALL: "C",
  };
  expect(surroundings(SLOT, own)).toEqual({
    TMPDIR: "/home/slots/m-1/tmp",
    NO_PROXY: LOOPBACK,
    no_proxy: LOOPBACK,
  });
});

test("P38: the proxies that are configured pass in both spellings, and loopback is always exempt", () => {
  const proxies = { HTTP_PROXY: "http://p:1", https_proxy: "http://p:2", ALL_PROXY: "socks5://p:3" };
  expect(surroundings(SLOT, { ...proxies, HTTPS_PROXY: "" })).toEqual({
    ...proxies,
    TMPDIR: "/home/slots/m-1/tmp",
    NO_PROXY: LOOPBACK,
    no_proxy: LOOPBACK,
  });
});

test("hosts that need no proxy are kept behind loopback, each once", () => {
  for (const own of [{ NO_PROXY: "a.example, localhost,,b.example" }, { no_proxy: "a.example,b.example" }]) {
    const { NO_PROXY, no_proxy } = surroundings(SLOT, own);
    expect([NO_PROXY, no_proxy]).toEqual([
      `${LOOPBACK},a.example,b.example`,
      `${LOOPBACK},a.example,b.example`,
    ]);
  }
});
