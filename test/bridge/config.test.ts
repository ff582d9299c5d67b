import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEFAULT_CONFIG_PATH, readConfig } from "../../bridge/config.ts";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { changed, without } from "../support/changed.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const CONFIG: BridgeConfig = {
  storeId: "store-1",
  sandboxId: "box-1",
  isolation: "container",
  controllerSocket: "/run/holdfast/ctl.sock",
  modelSocket: "/run/holdfast/model.sock",
  tokenFile: "/run/holdfast/token",
  stateDirectory: "/var/lib/holdfast/state",
  slotsDirectory: "/var/lib/holdfast/slots",
  workspace: "/workspace",
  users: { firstUid: 20001, gid: 20000 },
  clis: [{ cli: "opencode", version: "1.14.50", command: ["/opt/holdfast/bin/opencode"] }],
  limits: DEFAULT_LIMITS,
};

function written(value: unknown): string {
  const path = join(temporaryDirectory(), "bridge.json");
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
  return path;
}

test("a configuration is read as it was written", () => {
  expect(readConfig(written(CONFIG))).toEqual(CONFIG);
});

test("without users it is a configuration too: a process sandbox has none", () => {
  const plain = { ...CONFIG, isolation: "process" as const, users: null };
  expect(readConfig(written(plain))).toEqual(plain);
});

test("in a container the default place is the mounted directory", () => {
  expect(DEFAULT_CONFIG_PATH).toBe("/run/holdfast/bridge.json");
});

test("a wrong field is refused by its name", () => {
  const cases: Array<[string, unknown]> = [
    ["sandboxId", "../up"],
    ["isolation", "none"],
    ["controllerSocket", "relative.sock"],
    ["users.firstUid", 0],
    ["clis.0.command", []],
    ["limits.canaryMs", 0],
    ["limits.turnMs", 1.5],
  ];
  for (const [field, value] of cases) {
    const path = written(changed(CONFIG, field, value));
    expect(() => readConfig(path), field).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringContaining(`"${field}"`) }),
    );
  }
});

test("a missing field is refused by its name", () => {
  for (const field of ["tokenFile", "users", "limits.stopMs"]) {
    expect(() => readConfig(written(without(CONFIG, field))), field).toThrow(`"${field}"`);
  }
});

test("a file that is missing, or no JSON, is refused with its path", () => {
  for (const path of ["/nowhere/bridge.json", written("{")]) {
    expect(() => readConfig(path)).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID", message: expect.stringContaining(path) }),
    );
  }
});
