import { expect, test } from "vitest";
import { DRIVERS } from "../../../bridge/drivers/registry.ts";

test("each driver is found under the CLI that its manifest names", () => {
  for (const [cli, driver] of DRIVERS) expect(driver.manifest.cli).toBe(cli);
  expect([...DRIVERS.keys()]).toContain("opencode");
});

test("the driver of OpenCode says what it can and what it lacks", () => {
  expect(DRIVERS.get("opencode")?.manifest).toEqual({
    cli: "opencode",
    gate: "canary-on-stream",
    provesDelivery: true,
    asksPermission: true,
    asksQuestions: false,
    reportsUsage: true,
  });
});
