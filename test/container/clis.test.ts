/** The CLIs of the image: each runs for a slot's user, and another pinned version is another build that attests. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { imageRecordSchema } from "../../sandbox-image/manifest.ts";
import { CLI_PINS, choosePins } from "../../sandbox-image/pins.ts";
import { startTestHost } from "../support/host.ts";
import { fileOf, runOnce, scratchContainer } from "./engine.ts";
import { withClaude } from "./variants.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const CODEX = "/opt/holdfast/clis/codex/node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl";
const PI = "/opt/holdfast/clis/pi/node_modules";

async function recordIn(dist: string) {
  return imageRecordSchema.parse(JSON.parse(await readFile(`${dist}/image-manifest.json`, "utf8")));
}

test("each pinned CLI is there once, runs as a slot's user without a network, and says its version", async () => {
  const { imageId, manifest } = await recordIn(DIST);
  expect(manifest.clis.map(({ cli, version }) => `${cli} ${version}`)).toEqual(
    choosePins().map(({ cli, version }) => `${cli} ${version}`),
  );
  for (const { cli, version, command } of manifest.clis) {
    const { exitCode, lines } = await runOnce(imageId, [...command, "--version"]);
    const says = CLI_PINS.find((pin) => pin.cli === cli && pin.version === version)?.says;
    expect({ exitCode, lines }).toEqual({ exitCode: 0, lines: expect.arrayContaining([says]) as string[] });
    expect(manifest.files.map(({ path }) => path)).toContain(command.at(-1));
  }
});

test("what a CLI needs beside it is there, what nobody asks for is not, and no slot may change any of it", async () => {
  const { imageId } = await recordIn(DIST);
  const look = `
    ls -d ${CODEX}/codex-path/rg ${CODEX}/bin/codex-code-mode-host ${CODEX}/codex-resources/* ${PI}/jiti/package.json
    find ${PI} -name '*.map' -o -name '*.d.ts' | head -3
    find /opt/holdfast -writable ! -type l | head -3
    touch /opt/holdfast/clis/pi/new 2>/dev/null && echo WRITABLE
    true`;
  const { exitCode, lines } = await runOnce(imageId, ["/bin/sh", "-c", look]);
  expect(exitCode).toBe(0);
  expect(lines.filter((line) => line !== "").toSorted()).toEqual(
    [
      `${CODEX}/bin/codex-code-mode-host`,
      `${CODEX}/codex-path/rg`,
      `${CODEX}/codex-resources/bwrap`,
      `${PI}/jiti/package.json`,
    ].toSorted(),
  );
});

test("Pi's extension lies beside the bridge, with the digest that the manifest names", async () => {
  const { imageId, manifest } = await recordIn(DIST);
  const path = "/opt/holdfast/pi-extension.mjs";
  const bytes = await fileOf(await scratchContainer(imageId), path);
  const { sha256 } = manifest.files.find((file) => file.path === path) ?? {};
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(sha256);
  expect(bytes.toString()).toMatch(/as default/);
});

test("an image with the other Claude Code attests with that version, and not for a host that expects the default", async () => {
  const distDirectory = await withClaude("2.1.220");
  const { imageId, manifest } = await recordIn(distDirectory);
  const claude = manifest.clis.filter(({ cli }) => cli === "claude");
  expect(claude.map(({ version }) => version)).toEqual(["2.1.220"]);
  const { lines } = await runOnce(imageId, [...(claude[0]?.command ?? []), "--version"]);
  expect(lines).toContain("2.1.220 (Claude Code)");

  const t = await startTestHost({ distDirectory });
  const { id } = t.host.createSandbox({ kind: "docker" });
  await t.host.startSandbox(id);
  const expectsDefault = await startTestHost({
    around: (drivers) =>
      drivers.map((driver) => ({
        ...driver,
        create: async (spec) => {
          const other = t.setup.drivers.find(({ kind }) => kind === driver.kind);
          if (other === undefined) throw new HoldfastError("INTERNAL", "no such driver");
          return other.create(spec);
        },
      })),
  });
  const foreign = expectsDefault.host.createSandbox({ kind: "docker" }).id;
  await expect(expectsDefault.host.startSandbox(foreign)).rejects.toMatchObject({
    code: "ATTESTATION_FAILED",
    message: expect.stringContaining("image is not the one that this host built") as string,
  });
});
