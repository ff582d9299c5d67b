/**
 * The variables that every process of a slot gets, whichever CLI it is: a folder for temporary files, and the proxies that
 * the bridge was given, for calls to the outside. Nothing else of the bridge's own environment passes. Pure.
 */
import { join } from "node:path";
import { type Slot, TEMPORARY } from "./slots.ts";

const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [name, name.toLowerCase()]);

/** The CLI's server and the model's inlet are on loopback: never through a proxy. */
const LOOPBACK = ["127.0.0.1", "localhost"];

/** @param own the bridge's environment */
export function surroundings(
  slot: Slot,
  own: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const proxies = PROXIES.flatMap((name) => {
    const value = own[name] ?? "";
    return value === "" ? [] : [[name, value] as const];
  });
  const exempt = [...LOOPBACK, ...(own.NO_PROXY ?? own.no_proxy ?? "").split(",")]
    .map((host) => host.trim())
    .filter((host, at, all) => host !== "" && all.indexOf(host) === at)
    .join(",");
  return {
    TMPDIR: join(slot.root, TEMPORARY),
    ...Object.fromEntries(proxies),
    NO_PROXY: exempt,
    no_proxy: exempt,
  };
}
