/**
 * Attestation of sandboxes that have lived: what a stopped, a restarted or a replaced container was changed to is found
 * before its next turn, said where the user looks, and never started again by itself (law 15, E1, P47).
 */
import { expect, test } from "vitest";
import { cli } from "../support/cli.ts";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import {
  commit,
  createContainer,
  fileOf,
  present,
  putFiles,
  removeContainer,
  restart,
  tagged,
} from "./engine.ts";
import {
  BRIDGE,
  type Counts,
  MANIFEST,
  plain,
  replacing,
  tampering,
  withBridge,
  withTag,
} from "./variants.ts";

const OPENCODE = "/opt/holdfast/clis/opencode/bin/opencode";

interface Lived {
  t: TestHost;
  counts: Counts;
  sandbox: string;
  member: string;
  container: string;
}

async function started(distDirectory?: string) {
  const counts: Counts = { creates: 0, starts: 0 };
  const t = await startTestHost({
    around: (drivers) => tampering(drivers, counts, async () => undefined),
    ...(distDirectory === undefined ? {} : { distDirectory }),
  });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  return {
    t,
    counts,
    sandbox,
    member,
    container: t.host.store.sandbox(sandbox)?.container?.containerId ?? "",
  };
}

/** A sandbox that has had a turn. */
async function lived(): Promise<Lived> {
  const made = await started();
  await play(made.t, made.member, "The code word is limpet.");
  made.t.model.reset();
  return made;
}

/** What is changed, how, and what is said of it. */
const TAMPERED: Readonly<Record<string, [(id: string) => Promise<void>, RegExp]>> = {
  "the helper's bytes": [
    async (id) => putFiles(id, [plain(BRIDGE, Buffer.concat([await fileOf(id, BRIDGE), Buffer.from("\n")]))]),
    /the helper's bytes differ from the pinned ones/,
  ],
  "the manifest": [
    (id) => putFiles(id, [plain(MANIFEST, Buffer.from("{}"))]),
    /the manifest's bytes differ from the built one/,
  ],
  "a CLI's binary": [
    (id) => putFiles(id, [{ ...plain(OPENCODE, Buffer.from("#!/bin/sh\n")), mode: 0o711 }]),
    /a file of the image was changed: \/opt\/holdfast\/clis\/opencode\/bin\/opencode/,
  ],
};

async function isRefused({ t, counts, sandbox, member, container }: Lived, reason: RegExp): Promise<void> {
  const { locator } = t.host.member(member);
  const starts = counts.starts;
  for (let times = 0; times < 2; times += 1) {
    const { settlement } = await play(t, member, "What is the code word?");
    expect(settlement).toMatchObject({
      outcome: "not_sent",
      settled: false,
      error: { code: "ATTESTATION_FAILED", message: expect.stringMatching(reason) },
    });
  }
  expect(counts.starts).toBe(starts);
  expect((await present(container)).State.Running).toBe(false);
  expect(t.model.requests()).toEqual([]);
  expect(t.host.member(member).locator).toEqual(locator);
  expect(t.host.store.sandbox(sandbox)?.unready).toMatch(reason);
  // Where the user looks.
  const listed = await cli(["sandbox", "ls"], { store: t.directory });
  expect(listed.stdout).toContain("not ready");
  expect(listed.stdout).toMatch(reason);
  const doctor = await cli(["doctor", "--json"], { store: t.directory });
  expect(JSON.parse(doctor.stdout)).toContainEqual(
    expect.objectContaining({ name: "sandbox", state: "failed", detail: expect.stringMatching(reason) }),
  );
  expect(doctor.code).toBe(1);
}

for (const [what, [tamper, reason]] of Object.entries(TAMPERED)) {
  test(`law 15, E1: ${what} of a stopped sandbox changed: refused, said, not started`, async () => {
    const made = await lived();
    await made.t.host.stopSandbox(made.sandbox);
    await tamper(made.container);
    await isRefused(made, reason);
  });
}

test("law 15, E1: the helper's bytes changed while it ran, and the container restarted behind our back: refused and stopped", async () => {
  const made = await lived();
  const [tamper, reason] = TAMPERED["the helper's bytes"] ?? [];
  await tamper?.(made.container);
  // As long as nothing was restarted, what runs is what was attested.
  const { settlement } = await play(made.t, made.member, "What is the code word?");
  expect(settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
  made.t.model.reset();
  await restart(made.container);
  await isRefused(made, reason ?? /never/);
});

test("law 15, E1: an unchanged container restarted behind our back is measured and challenged anew, and RESTORED", async () => {
  const made = await lived();
  await restart(made.container);
  const { settlement } = await play(made.t, made.member, "What is the code word?");
  expect(settlement).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    parts: ["The code word is limpet."],
  });
});

test("law 8, E1, A6: a container made from a commit of the sandbox does not take its place", async () => {
  const { t, counts, member, container } = await lived();
  await t.host.stopSandbox(t.host.member(member).sandbox);
  const { Name, Config, HostConfig } = await present(container);
  const image = await commit(container, {});
  await removeContainer(container);
  const other = await createContainer({ ...Config, Image: image, HostConfig }, Name);
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ outcome: "refused", context: "LOST", error: { code: "CONTEXT_LOST" } });
  expect((await present(other)).State.Running).toBe(false);
  expect(counts).toEqual({ creates: 1, starts: 1 });
  expect(t.model.requests()).toEqual([]);
});

test("law 15, E1: the answer to an earlier challenge, given again, is refused", async () => {
  const replay = replacing(
    /("bridge\.challenge":async\(\{nonce:(\w+)\}\)=>\()\{pin:/,
    "$1$2=globalThis.first??=$2,{pin:",
  );
  const { t, counts, sandbox, member, container } = await started(await withBridge(replay));
  const host = await t.reopen();
  const reason = /the answer to the challenge is wrong/;
  await expect(host.startSandbox(sandbox)).rejects.toMatchObject({
    code: "ATTESTATION_FAILED",
    message: expect.stringMatching(reason),
  });
  expect(host.store.sandbox(sandbox)?.unready).toMatch(reason);
  await until("its end", async () => !(await present(container)).State.Running);
  expect(counts).toEqual({ creates: 1, starts: 1 });
  expect(host.store.turnsOf(member, 1)).toEqual([]);
});

test("law 15, E1: another image under the build's tag is not what a sandbox is made from", async () => {
  const { tag, imageId, distDirectory } = await withTag();
  const first = await started(distDirectory);
  const changed = await commit(first.container, { "dev.holdfast.changed": "1" });
  await tagged(changed, tag);
  const { sandbox } = createMember(first.t.host, "docker");
  await first.t.host.startSandbox(sandbox);
  const second = first.t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  expect((await present(second)).Image).toBe(imageId);
  expect(changed).not.toBe(imageId);
});
