/** The drivers of this bridge, by CLI. */
import type { CliName } from "../../protocol/locator.ts";
import type { Driver } from "./driver.ts";
import { KILO } from "./kilo/traits.ts";
import { OPENCODE } from "./opencode/traits.ts";
import { createServeDriver } from "./serve/driver.ts";

export const DRIVERS: ReadonlyMap<CliName, Driver> = new Map(
  [OPENCODE, KILO].map((traits) => [traits.cli, createServeDriver(traits)]),
);
