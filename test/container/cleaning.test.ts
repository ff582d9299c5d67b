/** What is removed is gone, however often and whenever it is asked for; what is not this store's stays as it was. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { testLabel } from "../../scripts/leftovers.ts";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { createContainer, inspectContainer, present, removeContainer, restart } from "./engine.ts";

const run = process.env.HOLDFAST_TEST_RUN ?? "none";

async function started(): Promise<TestHost> {
  const t = await startTestHost();
  tellOnFailure(t);
  return t;
}
const containerOf = (t: TestHost, sandbox: string) =>
  t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
const folderOf = (t: TestHost, sandbox: string) => join(t.directory, "s", sandbox);

/** A container of the same image that is none of the host's, with labels of the test's choice; it waits. */
function foreignContainer(
  t: TestHost,
  sandbox: string,
  labels: Record<string, string>,
  name?: string,
): Promise<string> {
  const { imageId = "" } = t.host.store.sandbox(sandbox)?.container ?? {};
  const body = { Image: imageId, Entrypoint: ["sleep", "600"], Labels: { ...labels, [testLabel]: run } };
  return createContainer({ ...body, HostConfig: { NetworkMode: "none" } }, name);
}

test("removing may be repeated, at once and one after the other, and after the container has gone by itself", async () => {
  const t = await started();
  const { sandbox } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  const container = containerOf(t, sandbox);
  await Promise.all([t.host.removeSandbox(sandbox), t.host.removeSandbox(sandbox)]);
  await t.host.removeSandbox(sandbox);
  expect(await inspectContainer(container)).toBeUndefined();
  expect(existsSync(folderOf(t, sandbox))).toBe(false);

  const gone = createMember(t.host, "docker").sandbox;
  await t.host.startSandbox(gone);
  await removeContainer(containerOf(t, gone));
  await t.host.removeSandbox(gone);
  expect(existsSync(folderOf(t, gone))).toBe(false);

  const never = createMember(t.host, "docker").sandbox;
  await t.host.removeSandbox(never);
  const starting = createMember(t.host, "docker").sandbox;
  const start = t.host.startSandbox(starting).catch(() => undefined);
  await t.host.removeSandbox(starting);
  await start;
  const left = containerOf(t, starting);
  expect(left === "" ? undefined : await inspectContainer(left)).toBeUndefined();
  expect(readdirSync(join(t.directory, "s"))).toEqual([]);
});

test("containers of others stay as they are, through removals and restarts: no labels, another store's, this store's of an unknown sandbox", async () => {
  const t = await started();
  const { sandbox } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  const own = { "dev.holdfast.sandbox": sandbox, "dev.holdfast.store": t.host.store.id };
  const others = await Promise.all([
    foreignContainer(t, sandbox, {}),
    foreignContainer(t, sandbox, { ...own, "dev.holdfast.store": "f".repeat(32) }),
    foreignContainer(t, sandbox, { ...own, "dev.holdfast.sandbox": "sb-unknown" }),
    foreignContainer(t, sandbox, { "dev.holdfast.sandbox": sandbox }, `holdfast-${sandbox}-2`),
  ]);
  const before = await Promise.all(others.map(present));
  await t.reopen();
  await t.host.stopSandbox(sandbox);
  await t.host.removeSandbox(sandbox);
  await t.reopen();
  expect(await Promise.all(others.map(present))).toEqual(before);
  expect(t.warnings.some((warning) => warning.includes("sb-unknown"))).toBe(true);
});

test("a record that names somebody else's container touches nothing of it", async () => {
  const t = await started();
  const { sandbox } = createMember(t.host, "docker");
  await t.host.startSandbox(sandbox);
  const container = containerOf(t, sandbox);
  const other = await foreignContainer(t, sandbox, {});
  await restart(other);
  const before = await present(other);
  const point = (id: string) => {
    const database = new DatabaseSync(join(t.directory, "holdfast.db"));
    database.prepare("UPDATE sandboxes SET container = json_set(container, '$.containerId', ?)").run(id);
    database.close();
  };
  point(other);
  const foreign = { code: "SANDBOX_FOREIGN" };
  await expect(t.host.stopSandbox(sandbox)).rejects.toMatchObject(foreign);
  await expect(t.host.removeSandbox(sandbox)).rejects.toMatchObject(foreign);
  expect(await present(other)).toEqual(before);
  point(container);
  await t.host.removeSandbox(sandbox);
  expect(await inspectContainer(container)).toBeUndefined();
});

test("P46: from inside, the host's folder can't be changed, and links to the host's paths lead nowhere on it", async () => {
  const t = await started();
  const { sandbox, member } = createMember(t.host, "docker");
  const sentinel = join(temporaryDirectory(), "sentinel");
  mkdirSync(sentinel);
  writeFileSync(join(sentinel, "keep"), "mine");
  const attempts = [
    "for f in ctl.sock token bridge.json; do ln -sf /tmp/x /run/holdfast/$f && echo swapped; done 2>/dev/null",
    "rm -rf /run/holdfast/* 2>/dev/null && echo emptied; mv /run/holdfast /tmp/away 2>/dev/null && echo moved",
    `rm -rf /workspace/* ~/.local; ln -s ${sentinel} /workspace/out; ln -s ${t.directory} ~/host; echo tried`,
  ].join("; ");
  const call = { name: "bash", arguments: { command: attempts, description: "try to get out" } };
  t.model.script("Try to get out", [{ kind: "reply", toolCalls: [call] }, "Tried."]);
  const { settlement } = await play(t, member, "Try to get out.");
  expect(settlement).toMatchObject({ outcome: "completed", settled: true });
  const printed = (t.model.mainRequests().at(-1)?.request?.rows ?? []).findLast(
    ({ role }) => role === "tool",
  )?.text;
  expect(printed).toContain("tried");
  expect(printed).not.toMatch(/swapped|emptied|moved/);
  expect(readdirSync(folderOf(t, sandbox)).sort()).toEqual([
    "bridge.json",
    "ctl.sock",
    "model.sock",
    "token",
  ]);
  await t.host.stopSandbox(sandbox);
  await t.host.removeSandbox(sandbox);
  expect(readFileSync(join(sentinel, "keep"), "utf8")).toBe("mine");
  expect(existsSync(join(t.directory, "holdfast.db"))).toBe(true);
});
