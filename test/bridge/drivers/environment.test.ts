import { expect, test } from "vitest";
import { PLACEHOLDER_KEY, slotEnvironment } from "../../../bridge/drivers/environment.ts";
import type { Slot } from "../../../bridge/slots.ts";

const SLOT: Slot = {
  member: "m-1",
  root: "/slots/m-1",
  home: "/slots/m-1/home",
  data: "/slots/m-1/data",
  config: "/slots/m-1/config",
  state: "/slots/m-1/state",
  cache: "/slots/m-1/cache",
  workspace: "/workspace",
  user: null,
  mark: { kind: "uid", uid: 1 },
  markValue: "box-1/m-1",
};

test("a CLI gets its slot's directories, the given path, and exactly nothing of the bridge's own environment", () => {
  expect(slotEnvironment(SLOT, "/opt/clis/bin:/usr/bin")).toEqual({
    PATH: "/opt/clis/bin:/usr/bin",
    LANG: "C.UTF-8",
    HOME: "/slots/m-1/home",
    XDG_DATA_HOME: "/slots/m-1/data",
    XDG_CONFIG_HOME: "/slots/m-1/config",
    XDG_STATE_HOME: "/slots/m-1/state",
    XDG_CACHE_HOME: "/slots/m-1/cache",
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "safe.directory",
    GIT_CONFIG_VALUE_0: "*",
  });
});

test("each call gives an object of its own: a driver adds to it", () => {
  const first = slotEnvironment(SLOT, "/bin");
  first.ADDED = "yes";
  expect(slotEnvironment(SLOT, "/bin")).not.toHaveProperty("ADDED");
});

test("law 14: what stands in a key's place is no key, and says so", () => {
  expect(PLACEHOLDER_KEY).toBe("holdfast-no-key");
});
