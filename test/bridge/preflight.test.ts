import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkPlaces } from "../../bridge/preflight.ts";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

function configIn(directory: string): BridgeConfig {
  return {
    storeId: "store-1",
    sandboxId: "box-1",
    isolation: "process",
    controllerSocket: join(directory, "ctl.sock"),
    modelSocket: join(directory, "model.sock"),
    tokenFile: join(directory, "token"),
    stateDirectory: join(directory, "state"),
    slotsDirectory: join(directory, "slots"),
    workspace: join(directory, "workspace"),
    users: null,
    clis: [],
    limits: DEFAULT_LIMITS,
  };
}

test("places that can be made and written are all that is asked for, and nothing is left in them", async () => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "workspace"));
  await checkPlaces(configIn(directory));
  expect(readdirSync(directory).toSorted()).toEqual(["slots", "state", "workspace"]);
  for (const name of readdirSync(directory)) expect(readdirSync(join(directory, name))).toEqual([]);
});

test("P42: every place that can't be written is named at once, as a fault of the configuration", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "file"), "");
  const config = {
    ...configIn(directory),
    stateDirectory: `${directory}/file/state`,
    slotsDirectory: "/proc/none/slots",
  };
  await expect(checkPlaces(config)).rejects.toMatchObject({
    code: "SANDBOX_UNFIT",
    message: `the sandbox can't write to ${directory}/file/state (ENOTDIR), /proc/none/slots (ENOENT), ${directory}/workspace (ENOENT)`,
  });
  expect(existsSync(join(directory, "workspace"))).toBe(false);
});

test.runIf(process.getuid?.() !== 0)("a place of somebody else is named too", async () => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "workspace"));
  chmodSync(join(directory, "workspace"), 0o555);
  await expect(checkPlaces(configIn(directory))).rejects.toThrow(/workspace \(EACCES\)/);
});
