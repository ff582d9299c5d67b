/** The environment that every CLI gets; a driver adds its own to it. Pure. */
import type { Slot } from "../slots.ts";

/** Stands where a token would in a process that must never ask the model: the host refuses it. */
export const PLACEHOLDER_KEY = "holdfast-no-key";

/** @param path the bridge's own search path */
export function slotEnvironment(slot: Slot, path: string): Record<string, string> {
  return {
    PATH: path,
    LANG: "C.UTF-8",
    HOME: slot.home,
    XDG_DATA_HOME: slot.data,
    XDG_CONFIG_HOME: slot.config,
    XDG_STATE_HOME: slot.state,
    XDG_CACHE_HOME: slot.cache,
    // The model's inlet is on loopback: never through a proxy.
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
    // The shared workspace has another owner than this slot; without this git exits 128.
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "safe.directory",
    GIT_CONFIG_VALUE_0: "*",
  };
}
