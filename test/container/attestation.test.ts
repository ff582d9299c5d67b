/** Attestation with real images and real containers: whatever is not exactly the pinned helper is not ready (law 15, E1). */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import type { Host } from "../../controller/host.ts";
import { createMember, startTestHost, type TestHostOptions } from "../support/host.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { commit, fileOf, inspectContainer, present, putFiles, recreate } from "./engine.ts";
import {
  BRIDGE,
  type Counts,
  MANIFEST,
  plain,
  replacing,
  tampering,
  withBridge,
  withoutPinLabel,
  withPinLabel,
} from "./variants.ts";

interface Case {
  /** The public case that it plays. */
  of?: string;
  /** Another build that the host takes for its own. */
  dist?: () => Promise<string>;
  /** What is done to the container before its first start; a new container's id when it had to be made anew. */
  tamper?: (containerId: string) => Promise<string | undefined>;
  reason: RegExp;
  /** How often the container may have been started: what the host can measure itself needs no start at all. */
  starts: 0 | 1;
}

const PIN = "http-agent-live-bridge";
const OPENCODE = "/opt/holdfast/clis/opencode/node_modules/opencode-linux-x64/bin/opencode";

const CASES: Readonly<Record<string, Case>> = {
  "an image label that says 3": {
    dist: () => withPinLabel(`${PIN}=3`),
    reason: /the image label says http-agent-live-bridge=3/,
    starts: 0,
  },
  "an image label that says 5": {
    dist: () => withPinLabel(`${PIN}=5`),
    reason: /the image label says http-agent-live-bridge=5/,
    starts: 0,
  },
  "an image label that says 4 with something behind it": {
    dist: () => withPinLabel(`${PIN}=4-rc1`),
    reason: /the image label says http-agent-live-bridge=4-rc1/,
    starts: 0,
  },
  "an image without the label": {
    dist: withoutPinLabel,
    reason: /the image label names no helper pin/,
    starts: 0,
  },
  "an image label that says 4 twice": {
    dist: () => withPinLabel(`${PIN}=4 ${PIN}=4`),
    reason: /the image label names the helper pin 2 times/,
    starts: 0,
  },
  "an image label that contradicts itself": {
    dist: () => withPinLabel(`${PIN}=4,${PIN}=3`),
    reason: /the image label names the helper pin 2 times \(4, 3\)/,
    starts: 0,
  },
  "a container whose own label contradicts its image's": {
    tamper: (id) =>
      recreate(id, ({ Config }) => ({ Labels: { ...Config.Labels, "dev.holdfast.pin": `${PIN}=3` } })),
    reason: /the image label names the helper pin 2 times \(4, 3\)/,
    starts: 0,
  },
  "another image than the one that this host built": {
    tamper: async (id) => {
      const { Image } = await present(id);
      const other = await commit(id, {});
      expect(other).not.toBe(Image);
      return recreate(id, () => ({ Image: other }));
    },
    reason: /the container's image is not the one that this host built/,
    starts: 0,
  },
  "other bytes under the right pin": {
    tamper: async (id) => {
      const bridge = await fileOf(id, BRIDGE);
      await putFiles(id, [plain(BRIDGE, Buffer.concat([bridge, Buffer.from("\n")]))]);
      return undefined;
    },
    reason: /the helper's bytes differ from the pinned ones/,
    starts: 0,
  },
  "a helper that is a link": {
    tamper: async (id) => {
      await putFiles(id, [
        plain("/opt/holdfast/real.cjs", await fileOf(id, BRIDGE)),
        { kind: "link", path: BRIDGE.slice(1), mode: 0o777, target: "/opt/holdfast/real.cjs" },
      ]);
      return undefined;
    },
    reason: /the helper's bytes can't be measured: .*no plain file/,
    starts: 0,
  },
  "a changed manifest": {
    tamper: async (id) => {
      await putFiles(id, [plain(MANIFEST, Buffer.from('{"formatVersion":1,"clis":[]}'))]);
      return undefined;
    },
    reason: /the manifest's bytes differ from the built one/,
    starts: 0,
  },
  "another helper bound over the image's": {
    tamper: async (id) => {
      const folder = temporaryDirectory();
      const other = join(folder, "bridge.cjs");
      await writeFile(other, Buffer.concat([await fileOf(id, BRIDGE), Buffer.from("\n")]));
      return recreate(id, ({ HostConfig }) => ({
        HostConfig: { ...HostConfig, Binds: [...(HostConfig.Binds ?? []), `${other}:${BRIDGE}:ro`] },
      }));
    },
    reason:
      /not on the allow list: \/opt\/holdfast\/bridge.cjs.*the helper's bytes differ from the pinned ones/,
    starts: 0,
  },
  "the very same helper bound over the image's": {
    tamper: async (id) => {
      const other = join(temporaryDirectory(), "bridge.cjs");
      await writeFile(other, await fileOf(id, BRIDGE));
      return recreate(id, ({ HostConfig }) => ({
        HostConfig: { ...HostConfig, Binds: [...(HostConfig.Binds ?? []), `${other}:${BRIDGE}:ro`] },
      }));
    },
    reason: /not on the allow list: \/opt\/holdfast\/bridge.cjs$/,
    starts: 0,
  },
  "a CLI whose binary was replaced": {
    tamper: async (id) => {
      await putFiles(id, [{ ...plain(OPENCODE, Buffer.from("#!/bin/sh\nexit 0\n")), mode: 0o711 }]);
      return undefined;
    },
    reason:
      /a file of the image was changed: \/opt\/holdfast\/clis\/opencode\/node_modules\/opencode-linux-x64\/bin\/opencode \(changed\)$/,
    starts: 0,
  },
  "a library that is loaded before all others": {
    tamper: async (id) => {
      await putFiles(id, [plain("/etc/ld.so.preload", Buffer.from("/tmp/mine.so\n"))]);
      return undefined;
    },
    reason: /a file of the image was changed: \/etc\/ld.so.preload \(added\)$/,
    starts: 0,
  },
  "a mount that is not on the list": {
    tamper: (id) =>
      recreate(id, ({ HostConfig }) => ({
        HostConfig: { ...HostConfig, Binds: [...(HostConfig.Binds ?? []), "/etc:/host-etc:ro"] },
      })),
    reason: /a mount is not on the allow list: \/host-etc/,
    starts: 0,
  },
  "the link's directory mounted writable": {
    tamper: (id) =>
      recreate(id, ({ HostConfig }) => ({
        HostConfig: {
          ...HostConfig,
          Binds: (HostConfig.Binds ?? []).map((bind) => bind.replace(/:ro$/, ":rw")),
        },
      })),
    reason: /a mount is not on the allow list: \/run\/holdfast/,
    starts: 0,
  },
  "an old helper in a build that claims the new pin": {
    dist: () => withBridge(replacing(`${PIN}=4`, `${PIN}=3`)),
    of: "P47",
    reason: /the bridge says http-agent-live-bridge=3/,
    starts: 1,
  },
  "a newer helper in a build that claims this pin": {
    dist: () => withBridge(replacing(`${PIN}=4`, `${PIN}=5`)),
    of: "P47",
    reason: /the bridge says http-agent-live-bridge=5/,
    starts: 1,
  },
  "a helper that states no version": {
    dist: () => withBridge(replacing('kind:"hello",pin:', 'kind:"hello",pen:')),
    of: "P47",
    reason: /what the bridge says can't be read/,
    starts: 1,
  },
  "a helper whose answer lost a field": {
    dist: () => withBridge(replacing(/(helperSha256:\w+\.helperSha256),epoch:/, "$1,epoche:")),
    reason: /the answer to bridge.challenge does not fit its schema/,
    starts: 1,
  },
  "a helper of this pin that lacks a feature": {
    dist: () => withBridge(replacing('"permission-reply-retry"', '"permission-reply-never"')),
    reason: /states the feature permission-reply-retry 0 times.*unknown feature: permission-reply-never/,
    starts: 1,
  },
};

for (const [what, { of = null, dist, tamper, reason, starts }] of Object.entries(CASES)) {
  test(`law 15, ${of === null ? "" : `${of}, `}E1, E7: ${what} is not ready, said with the reason, and not started again`, async () => {
    const counts: Counts = { creates: 0, starts: 0 };
    const options: TestHostOptions = {
      around: (drivers) => tampering(drivers, counts, tamper ?? (async () => undefined)),
    };
    if (dist !== undefined) options.distDirectory = await dist();
    const t = await startTestHost(options);
    tellOnFailure(t);
    const { sandbox, member } = createMember(t.host, "docker");
    await expect(t.host.startSandbox(sandbox)).rejects.toMatchObject({
      code: "ATTESTATION_FAILED",
      message: expect.stringMatching(reason),
    });
    expect(counts).toEqual({ creates: 1, starts });
    expect(t.host.store.sandbox(sandbox)?.unready).toMatch(reason);
    expect(attestationsOf(t.directory, sandbox)).toEqual([expect.stringMatching(reason)]);
    expect(await isRunning(t.host, sandbox)).toBe(false);
    const { settlement } = await play(t, member, "Hello?");
    expect(settlement).toMatchObject({
      outcome: "not_sent",
      settled: false,
      error: { code: "ATTESTATION_FAILED", message: expect.stringMatching(reason) },
    });
    // What only the running helper can show is asked once more for the turn, and by nobody but a turn.
    expect(counts).toEqual({ creates: 1, starts: 2 * starts });
    expect(await isRunning(t.host, sandbox)).toBe(false);
    expect(t.model.requests()).toEqual([]);
  });
}

test("law 15, E1: the build's own image is ready, and is started once for it", async () => {
  const counts: Counts = { creates: 0, starts: 0 };
  const t = await startTestHost({ around: (drivers) => tampering(drivers, counts, async () => undefined) });
  tellOnFailure(t);
  const { sandbox } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  await t.host.startSandbox(sandbox);
  expect(counts).toEqual({ creates: 1, starts: 1 });
  expect(t.host.store.sandbox(sandbox)?.unready).toBeNull();
  expect(await isRunning(t.host, sandbox)).toBe(true);
});

function attestationsOf(directory: string, sandbox: string): string[] {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { readOnly: true });
  const rows = database
    .prepare("SELECT reasons FROM attestations WHERE sandbox = ? ORDER BY at")
    .all(sandbox);
  database.close();
  return rows.map(({ reasons }) => (JSON.parse(String(reasons)) as string[]).join("; "));
}

async function isRunning(host: Host, sandbox: string): Promise<boolean> {
  const id = host.store.sandbox(sandbox)?.container?.containerId ?? "";
  return (await inspectContainer(id))?.State.Running ?? false;
}
