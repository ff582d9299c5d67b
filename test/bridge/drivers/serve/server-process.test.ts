import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { startServer } from "../../../../bridge/drivers/serve/server-process.ts";
import type { DriverLimits } from "../../../../protocol/bridge-config.ts";
import type { Script } from "../../../stand-ins/serve/script.ts";

import { createRig, type Rig } from "./rig.ts";

async function start(script: Script, limits: Partial<DriverLimits> = {}) {
  const rig = await createRig(script, limits);
  return { rig, starting: startServer(OPENCODE, rig.request()) };
}

async function expectNobody(rig: Rig): Promise<void> {
  expect(await rig.processes()).toBe(0);
}

test.each<[string, NonNullable<Script["ready"]>]>([
  ["at once", {}],
  ["late", { afterMs: 300 }],
  ["twice", { times: 2 }],
  ["after noise", { noise: "Warning: something\nopencode server listening soon\n\u001b[31mred\u001b[0m\n" }],
  ["a character at a time", { byByte: true }],
])("the ready line comes %s: the server is found on the printed port", async (_when, ready) => {
  const { rig, starting } = await start({ ready });
  const server = await starting;
  expect(await server.api.health(1000)).toBe("1.18.33");
  server.http.close();
  expect(await server.process.stop(1000, async () => undefined)).toEqual([]);
  await expectNobody(rig);
});

test("no ready line: not ready within the limit, and nobody is left", async () => {
  const { rig, starting } = await start({ ready: { times: 0 } }, { readyMs: 600 });
  await expect(starting).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  await expectNobody(rig);
});

test("noise without end in place of the line is refused at its bound", async () => {
  const { rig, starting } = await start({ ready: { noise: "x".repeat(70_000), times: 0 } });
  await expect(starting).rejects.toMatchObject({ message: expect.stringMatching(/no ready line within/) });
  await expectNobody(rig);
});

test("an exit before the line is told with its code; what it printed stays in the log", async () => {
  const { rig, starting } = await start({ ready: { exit: 3 } });
  await expect(starting).rejects.toMatchObject({ message: expect.stringMatching(/code 3/) });
  expect(rig.warnings.join()).toContain("ended before it was ready");
});

test("a command that does not exist is one clear failure", async () => {
  const rig = await createRig();
  await expect(startServer(OPENCODE, rig.request({ command: ["/nowhere/opencode"] }))).rejects.toMatchObject({
    code: "CLI_NOT_READY",
  });
});

test("the start is cancelled: STOPPED, and nobody is left", async () => {
  const rig = await createRig({ ready: { times: 0 } });
  const controller = new AbortController();
  const starting = startServer(OPENCODE, rig.request({ signal: controller.signal }));
  await expect.poll(() => rig.processes()).toBe(1);
  controller.abort();
  await expect(starting).rejects.toMatchObject({ code: "STOPPED" });
  await expectNobody(rig);
});

test.each<[string, NonNullable<Script["health"]>]>([
  ["is reset a few times", ["refuse", "refuse", "refuse", "ok"]],
  ["answers an error for a moment", [503, 500, 503, "ok"]],
  ["is swallowed once", ["hang", "ok"]],
])("health that %s is asked again", async (_what, health) => {
  const { starting } = await start({ health });
  const server = await starting;
  server.http.close();
  expect(await server.process.stop(1000, async () => undefined)).toEqual([]);
});

test("health that is refused for a while after the line is waited for, not given up in a few milliseconds", async () => {
  const { rig, starting } = await start({ health: ["refuse"] });
  const began = performance.now();
  await expect(starting).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect(performance.now() - began).toBeGreaterThan(500);
  expect(await rig.calls("/global/health")).toHaveLength(10);
  await expectNobody(rig);
});

test("P40: a page with 200 in place of health is never adopted", async () => {
  const { rig, starting } = await start({ health: ["html"] });
  await expect(starting).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  await expectNobody(rig);
});

test("another version than the pinned one is refused at once, with both named", async () => {
  const { rig, starting } = await start({ version: "1.19.0" });
  await expect(starting).rejects.toThrow("opencode is 1.19.0, pinned is 1.18.33");
  expect(await rig.calls("/global/health")).toHaveLength(1);
  await expectNobody(rig);
});

test("the password is in no argument and no call's address", async () => {
  const { rig, starting } = await start({});
  const server = await starting;
  const argv = await readFile(`/proc/${server.process.pid}/cmdline`, "utf8");
  const environ = await readFile(`/proc/${server.process.pid}/environ`, "utf8");
  const password = environ.match(/OPENCODE_SERVER_PASSWORD=([^\0]+)/)?.[1] ?? "";
  expect(password.length).toBeGreaterThanOrEqual(32);
  expect(argv).not.toContain(password);
  expect(JSON.stringify(await rig.calls())).not.toContain(password);
  server.http.close();
  await server.process.stop(1000, async () => undefined);
});
