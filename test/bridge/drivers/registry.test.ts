import { expect, test } from "vitest";
import { DRIVERS } from "../../../bridge/drivers/registry.ts";

test("each driver is found under the CLI that its manifest names", () => {
  for (const [cli, driver] of DRIVERS) expect(driver.manifest.cli).toBe(cli);
  expect([...DRIVERS.keys()].sort()).toEqual(["claude", "codex", "kilo", "opencode", "pi"]);
});

test.each(["opencode", "kilo"] as const)("the driver of %s says what it can and what it lacks", (cli) => {
  expect(DRIVERS.get(cli)?.manifest).toEqual({
    cli,
    gate: "canary-on-stream",
    provesDelivery: true,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: true,
    fork: { when: "at_once", state: `data/${cli}`, except: ["*.db-shm", `data/${cli}/log`] },
    ranges: {},
  });
});
