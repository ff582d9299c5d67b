import { expect, test } from "vitest";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { createServeDriver } from "../../../../bridge/drivers/serve/driver.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import type { Script } from "../../../stand-ins/serve/script.ts";
import {
  createRig,
  locatorOf,
  type Rig,
  running,
  type StoredSession,
  steps,
  submit,
  textOf,
  together,
} from "./rig.ts";

/** A settled conversation whose process has ended: what a locator is for. */
async function settled(): Promise<{ rig: Rig; locator: Locator }> {
  const { rig, resident } = await running({ turns: [steps({ text: "first" })] });
  const { tail } = await rig.seen("native_end");
  resident.endTurn();
  expect(await resident.stop()).toEqual([]);
  rig.observations.length = 0;
  await rig.script({ turns: [steps({ text: "second" })] });
  return { rig, locator: locatorOf(resident, tail) };
}

test("a new session is made in the slot's workspace; nothing is subscribed or sent yet", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  expect(resident.directory).toBe(rig.slot.workspace);
  expect(resident.nativeId).toMatch(/^ses_/);
  expect(resident.processGeneration).toBe(1);
  const calls = await rig.calls();
  expect(calls.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "GET /global/health",
    "POST /session",
  ]);
  await resident.stop();
});

test("proven: the saved id is resumed and takes the next turn, in the same session", async () => {
  const { rig, locator } = await settled();
  const result = await rig.driver.launch(rig.request(), locator);
  if (result.kind !== "resumed") return expect.unreachable(`got ${result.kind}`);
  expect(result.resume).toEqual({ kind: "proven" });
  expect(result.resident.nativeId).toBe(locator.nativeId);
  await submit(result.resident);
  await rig.seen("native_end");
  expect(textOf(rig)).toBe("second");
  expect(await rig.calls("POST /session")).not.toContainEqual(
    expect.objectContaining({ path: "/session/new" }),
  );
  expect((await rig.store()).length).toBe(1);
  await result.resident.stop();
});

test("proven only before the prompt: no prompt is among the calls of a resume", async () => {
  const { rig, locator } = await settled();
  const before = (await rig.calls("prompt_async")).length;
  const result = await rig.driver.launch(rig.request(), locator);
  expect(await rig.calls("prompt_async")).toHaveLength(before);
  if (result.kind === "resumed") await result.resident.stop();
});

const lost: Array<[string, (sessions: StoredSession[]) => StoredSession[], RegExp]> = [
  ["the session is gone", () => [], /no session with the saved id/],
  [
    "it belongs to another directory",
    ([session]) => [{ ...(session as StoredSession), directory: "/elsewhere" }],
    /another working directory/,
  ],
  [
    "its last settled message is missing",
    ([session]) => [{ ...(session as StoredSession), messages: session?.messages.slice(0, 1) ?? [] }],
    /lacks the last settled turn/,
  ],
  [
    "its history is empty",
    ([session]) => [{ ...(session as StoredSession), messages: [] }],
    /lacks the last settled turn/,
  ],
  [
    "its last settled message has another role",
    ([session]) => [
      {
        ...(session as StoredSession),
        messages:
          session?.messages.map(({ info, parts }) => ({ info: { ...info, role: "user" }, parts })) ?? [],
      },
    ],
    /another role/,
  ],
];

test("LOST when history or session are not the locator's: nothing is sent, nothing is made, and the process is ended", () =>
  together(lost, async (_what, change, reason) => {
    const { rig, locator } = await settled();
    await rig.keep(change(await rig.store()));
    const sessions = (await rig.store()).length;
    const result = await rig.driver.launch(rig.request(), locator);
    expect(result).toMatchObject({ kind: "not_resumed", resume: { kind: "lost" } });
    if (result.kind === "not_resumed") expect(result.resume.reason).toMatch(reason);
    expect(await rig.processes()).toBe(0);
    expect(await rig.store()).toHaveLength(sessions);
    expect(await rig.calls("prompt_async")).toHaveLength(1);
  }));

const UNASKED: Array<[string, Script]> = [
  ["the session can't be asked", { sessionStatus: 500 }],
  ["the session is refused", { sessionStatus: 401 }],
  ["the history can't be read", { messageStatus: 500 }],
];

test("an error, never LOST, when session or history can't be asked", () =>
  together(UNASKED, async (_what, script) => {
    const { rig, locator } = await settled();
    await rig.script(script);
    const result = await rig.driver.launch(rig.request(), locator);
    expect(result).toMatchObject({ kind: "not_resumed", resume: { kind: "error" } });
    expect(await rig.processes()).toBe(0);
  }));

test("a server that does not become ready is an error of its own, never LOST", async () => {
  const { rig, locator } = await settled();
  await rig.script({ ready: { times: 0 } });
  const request = rig.request();
  const launching = rig.driver.launch({ ...request, limits: { ...request.limits, readyMs: 500 } }, locator);
  await expect(launching).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect(await rig.processes()).toBe(0);
});

test("a new session that can't be made is an error, and the process is ended", async () => {
  const rig = await createRig({ version: "1.0.0" });
  await expect(rig.driver.launch(rig.request(), null)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect(await rig.processes()).toBe(0);
});

test("proof of a delivery: present with parts, absent without them or without a row, each on a process of its own", async () => {
  const { rig, resident, message } = await running({ turns: [steps({ open: "x" })] });
  await rig.seen("text");
  await rig.command({ exit: 1 }).catch(() => undefined);
  await rig.exited;
  await resident.stop();
  const prove = (native: string) => rig.driver.proveDelivery(rig.request(), resident.nativeId, native);
  expect(await prove(message)).toBe("present");
  expect(await prove("msg_never_sent")).toBe("absent");
  await rig.keep(
    (await rig.store()).map((session) => ({
      ...session,
      messages: session.messages.map(({ info, parts }) => ({
        info,
        parts: info.id === message ? [] : parts,
      })),
    })),
  );
  expect(await prove(message)).toBe("absent");
  expect(await rig.processes()).toBe(0);
  await rig.keep([]);
  expect(await prove(message)).toBe("unclear");
  await rig.script({ messageStatus: 500 });
  await expect(prove(message)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  expect(await rig.processes()).toBe(0);
});

test("the manifest is the traits' own", () => {
  expect(createServeDriver(OPENCODE).manifest.cli).toBe("opencode");
  expect(createServeDriver({ ...OPENCODE, cli: "kilo" }).manifest.cli).toBe("kilo");
});
