import { expect, test } from "vitest";
import { BridgeConfig, DEFAULT_LIMITS, DriverLimits } from "../../protocol/bridge-config.ts";
import { dispensableFields, NO_IDS, wrongBounds } from "../support/bounds.ts";

const CONFIG: BridgeConfig = {
  storeId: "store-1",
  sandboxId: "box-1",
  isolation: "container",
  controllerSocket: "/run/holdfast/controller.sock",
  modelSocket: "/run/holdfast/model.sock",
  tokenFile: "/run/holdfast/token",
  stateDirectory: "/var/lib/holdfast",
  slotsDirectory: "/slots",
  workspace: "/workspace",
  users: { firstUid: 20_001, gid: 20_000 },
  clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/opencode"] }],
  limits: DEFAULT_LIMITS,
};

const PATHS = {
  good: ["/", `/${"x".repeat(1023)}`],
  bad: ["", "relative", "./a", `/${"x".repeat(1024)}`, null],
};
const NO_POSITIVES = [0, -1, 1.5, Number.POSITIVE_INFINITY, "1", null];

test("a configuration is accepted as it is, and refused beyond each of its bounds", () => {
  const bounds = [
    { at: "sandboxId", bad: NO_IDS },
    { at: "isolation", good: ["container", "process"], bad: ["none", "", null] },
    { at: "controllerSocket", ...PATHS },
    { at: "modelSocket", ...PATHS },
    { at: "tokenFile", ...PATHS },
    { at: "stateDirectory", ...PATHS },
    { at: "slotsDirectory", ...PATHS },
    { at: "workspace", ...PATHS },
    { at: "users", good: [null], bad: [{}, undefined] },
    { at: "users.firstUid", good: [1], bad: NO_POSITIVES },
    { at: "users.gid", good: [1], bad: NO_POSITIVES },
    { at: "clis", good: [[]], bad: [null, [{}]] },
    { at: "clis.0.cli", bad: ["gemini", null] },
    { at: "clis.0.version", bad: [null] },
    { at: "clis.0.command", good: [["a", "b"]], bad: [[], [""], "a", null] },
    { at: "limits", bad: [null, {}] },
  ];
  expect(wrongBounds(BridgeConfig, CONFIG, bounds)).toEqual([]);
  expect(dispensableFields(BridgeConfig, CONFIG)).toEqual([]);
});

test("a configuration survives being written as JSON and read again", () => {
  expect(BridgeConfig.parse(JSON.parse(JSON.stringify(CONFIG)))).toEqual(CONFIG);
});

test("every limit of the drivers is a positive whole number of milliseconds, and has a default", () => {
  const bounds = Object.keys(DEFAULT_LIMITS).map((at) => ({ at, good: [1], bad: NO_POSITIVES }));
  expect(wrongBounds(DriverLimits, DEFAULT_LIMITS, bounds)).toEqual([]);
  expect(dispensableFields(DriverLimits, DEFAULT_LIMITS)).toEqual([]);
  for (const name of Object.keys(DEFAULT_LIMITS)) expect(name).toMatch(/Ms$/);
});
