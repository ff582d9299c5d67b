/** The drivers of this bridge, by CLI. */
import type { CliName } from "../../protocol/locator.ts";
import { createClaudeDriver } from "./claude/driver.ts";
import { CODEX } from "./codex/driver.ts";
import type { Driver } from "./driver.ts";
import { KILO } from "./kilo/traits.ts";
import { OPENCODE } from "./opencode/traits.ts";
import { PI } from "./pi/driver.ts";
import { createServeDriver } from "./serve/driver.ts";

export const DRIVERS: ReadonlyMap<CliName, Driver> = new Map(
  [...[OPENCODE, KILO].map(createServeDriver), createClaudeDriver(), CODEX, PI].map((driver) => [
    driver.manifest.cli,
    driver,
  ]),
);
