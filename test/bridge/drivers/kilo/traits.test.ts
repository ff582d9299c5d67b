import { expect, test } from "vitest";
import { KILO } from "../../../../bridge/drivers/kilo/traits.ts";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";

test("P39: the ready line is the CLI's own, on a literal 127.0.0.1, alone on its line", () => {
  const port = (text: string) => text.match(KILO.readyLine)?.[1];
  expect(port("kilo server listening on http://127.0.0.1:4096\n")).toBe("4096");
  expect(port("Warning: KILO_SERVER_PASSWORD\nkilo server listening on http://127.0.0.1:9\r\n")).toBe("9");
  expect(port("kilo server listening on http://localhost:4096\n")).toBeUndefined();
  expect(port("kilo server listening on http://[::1]:4096\n")).toBeUndefined();
  expect(port("kilo server listening on http://127.0.0.1:4096/path\n")).toBeUndefined();
  expect(port("opencode server listening on http://127.0.0.1:4096\n")).toBeUndefined();
});

test("the server chooses its port itself, on loopback, and no secret is among its arguments", () => {
  expect(KILO.args).toEqual(["serve", "--port", "0", "--hostname", "127.0.0.1"]);
});

test("it is told apart from OpenCode by data alone: the same traits, each its own names", () => {
  expect(Object.keys(KILO).sort()).toEqual(Object.keys(OPENCODE).sort());
  const { userName, passwordVariable, configVariable } = KILO;
  expect([userName, passwordVariable, configVariable]).toEqual([
    "kilo",
    "KILO_SERVER_PASSWORD",
    "KILO_CONFIG_CONTENT",
  ]);
});

test("what it does differently is said: brackets, order by id, network requests, tools that outlive a turn", () => {
  expect([KILO.hasTurnBrackets, KILO.ordersById, KILO.asksForNetwork]).toEqual([true, true, true]);
  expect([...KILO.backgroundTools].sort()).toEqual(["background_process", "schedule_wakeup"]);
});

test("telemetry, updates and outside fetches are off", () => {
  expect(KILO.quietVariables).toMatchObject({
    KILO_TELEMETRY_LEVEL: "off",
    KILO_DISABLE_SESSION_INGEST: "1",
    KILO_DISABLE_MODELS_FETCH: "1",
    KILO_DISABLE_AUTOUPDATE: "1",
  });
});
