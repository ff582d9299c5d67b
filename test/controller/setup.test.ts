import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type SetupOptions, setUp } from "../../controller/setup.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const BUNDLE = {
  node: "/opt/node",
  bridge: "/opt/bridge.cjs",
  clis: [
    { cli: "opencode", version: "1.14.50", command: ["/opt/opencode"], isChosen: true },
    { cli: "kilo", version: "7.0.0", command: ["/opt/kilo"], isChosen: true },
    { cli: "claude", version: "2.2", command: ["/opt/claude-2.2"], isChosen: true },
    { cli: "claude", version: "2.1", command: ["/opt/claude-2.1"], isChosen: false },
    { cli: "pi", version: "1.0.0", command: ["/opt/node", "/opt/pi.js"], isChosen: true },
  ],
  piExtension: "/opt/pi-extension.mjs",
};
const SPEC = { storeId: "s", sandboxId: "box", generation: 1, directory: "/d" };

function setup(bundle: unknown, options: Partial<SetupOptions> = {}) {
  const distDirectory = temporaryDirectory();
  if (bundle !== null) {
    const text = typeof bundle === "string" ? bundle : JSON.stringify(bundle);
    writeFileSync(join(distDirectory, "bundle.json"), text);
  }
  const made = setUp({
    distDirectory,
    engineSocketPath: join(distDirectory, "none.sock"),
    path: "/bin",
    ...options,
  });
  onTestFinished(() => made.close());
  return made;
}

test("containers are always offered, processes once their bundle was made", () => {
  expect(setup(null).drivers.map(({ kind }) => kind)).toEqual(["docker"]);
  expect(setup(BUNDLE).drivers.map(({ kind }) => kind)).toEqual(["docker", "process"]);
});

test("nothing is started or asked: an engine or an image that is not there is no error yet", async () => {
  const { drivers, engine } = setup(null);
  expect(await engine.ping()).toBe(false);
  await expect(drivers[0]?.pinned()).rejects.toMatchObject({ code: "IMAGE_MISSING" });
});

test("a process sandbox gets the bundle's CLIs, or the commands in their place, and the limits", async () => {
  const { drivers } = setup(BUNDLE, { commands: { kilo: ["node", "stand-in.ts"] }, limits: { turnMs: 77 } });
  const config = await drivers[1]?.bridgeConfig(SPEC, "none");
  expect(config?.clis).toEqual([
    { cli: "opencode", version: "1.14.50", command: ["/opt/opencode"] },
    { cli: "kilo", version: "7.0.0", command: ["node", "stand-in.ts"] },
    { cli: "claude", version: "2.2", command: ["/opt/claude-2.2"] },
    { cli: "pi", version: "1.0.0", command: ["/opt/node", "/opt/pi.js"] },
  ]);
  expect(config?.limits.turnMs).toBe(77);
});

test("another pinned version is taken where it is asked for, and one that is not there is refused", async () => {
  const { drivers } = setup(BUNDLE, { versions: { claude: "2.1" } });
  const clis = (await drivers[1]?.bridgeConfig(SPEC, "none"))?.clis;
  expect(clis?.filter(({ cli }) => cli === "claude")).toEqual([
    { cli: "claude", version: "2.1", command: ["/opt/claude-2.1"] },
  ]);
  expect(clis?.map(({ cli }) => cli)).toEqual(["opencode", "kilo", "claude", "pi"]);
  expect(() => setup(BUNDLE, { versions: { claude: "2.0" } })).toThrow(
    expect.objectContaining({ code: "CLI_UNKNOWN", message: expect.stringContaining("claude 2.0") }),
  );
});

test("a bundle's record that can't be used is refused with what to do", () => {
  for (const bundle of ["{", "[]", {}, { ...BUNDLE, clis: [{ cli: "opencode" }] }]) {
    expect(() => setup(bundle)).toThrow(
      expect.objectContaining({ code: "STORE_ERROR", message: expect.stringContaining("--bundle-only") }),
    );
  }
});
