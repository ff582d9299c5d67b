import { expect, test } from "vitest";
import { PI } from "../../../../bridge/drivers/pi/driver.ts";
import type { Script } from "../../../stand-ins/pi/script.ts";
import { createRig } from "./rig.ts";

const HISTORY: Array<[string, string | null, string]> = [
  ["u1", null, "user"],
  ["a2", "u1", "assistant"],
];

test.each<[string, Script, string]>([
  ["in which our extension does not run", { hello: null }, "our extension does not run"],
  ["of another version", { hello: { version: "1.7.0" } }, "pi is 1.7.0, pinned is 1.6.0"],
  ["with another model", { state: { model: { id: "m2", provider: "holdfast" } } }, "another model"],
  ["without a model", { state: { model: null } }, "another shape"],
  ["whose session has an unusable id", { state: { sessionId: "a b" } }, "an unusable id"],
  ["that ends at once", { start: [{ exit: 7 }] }, "ended before it was ready (code 7"],
  ["in another folder", { hello: { cwd: "/elsewhere" } }, "another working directory"],
])("a pi %s is not ready", async (_what, script, message) => {
  const rig = await createRig(script);
  await expect(rig.launch()).rejects.toThrow(message);
  expect(await rig.processes()).toBe(0);
});

test.each<[string, Script, string]>([
  [
    "names another session than the saved one (B7)",
    { entries: HISTORY, state: { sessionId: "01a22ce0-9999-7000-8000-000000000009" } },
    "the CLI resumed another session (01a22ce0-9999",
  ],
  [
    "does not know the saved id",
    { start: [{ stderr: "No session found matching 'x'\n" }, { exit: 1 }] },
    "no session with the saved id",
  ],
  [
    "asks whether to copy a session of another folder",
    { start: [{ stderr: "Session found in different project: /x\nAborted.\n" }, { exit: 0 }] },
    "another working directory",
  ],
  [
    "runs in the session's own folder",
    { entries: HISTORY, hello: { cwd: "/x" } },
    "another working directory",
  ],
  ["loaded nothing (P23)", { entries: HISTORY, state: { messageCount: 0 } }, "is blank"],
  ["lacks the last settled turn (P23)", { entries: HISTORY.slice(0, 1) }, "lacks the last settled turn"],
  ["went back to before it", { entries: [...HISTORY, ["u3", "u1", "user"]] }, "on a branch that was left"],
  [
    "lost a record in the middle (P23)",
    { entries: HISTORY, hello: { isWhole: false } },
    "lacks its beginning",
  ],
])("a resumed pi that %s is lost", async (_what, script, reason) => {
  const rig = await createRig(script);
  expect(await PI.launch(rig.request(), rig.locator())).toEqual({
    kind: "not_resumed",
    resume: { kind: "lost", reason: expect.stringContaining(reason) },
  });
  expect(await rig.processes()).toBe(0);
});

test.each<[string, Script]>([
  ["ends with another complaint", { start: [{ stderr: "ENOSPC: no space left\n" }, { exit: 1 }] }],
  ["dies", { start: [{ kill: true }] }],
  ["is of another version", { entries: HISTORY, hello: { version: "1.7.0" } }],
  ["does not tell its records", { entries: HISTORY, start: [{ deafTo: "get_entries" }] }],
  ["closes its stdout", { start: [{ closeStdout: true }] }],
])("a resumed pi that %s is an error of its own, and never lost", async (_what, script) => {
  const rig = await createRig(script, { requestMs: 400 });
  expect(await PI.launch(rig.request(), rig.locator())).toMatchObject({
    kind: "not_resumed",
    resume: { kind: "error" },
  });
  expect(await rig.processes()).toBe(0);
});

test("a locator whose turns left no message is resumed by its id alone", async () => {
  const rig = await createRig();
  const result = await PI.launch(rig.request(), rig.locator({ tail: null }));
  expect(result.kind).toBe("resumed");
  if (result.kind === "resumed") await result.resident.stop();
});

test("dialogs that are opened at the start are cancelled, and hold nothing up", async () => {
  const dialog = { type: "extension_ui_request", id: "d1", method: "confirm", title: "Now?" };
  const rig = await createRig({ start: [{ print: dialog }] });
  const resident = await rig.launch();
  expect(rig.log.lines.map(({ what }) => what)).toContain("a dialog outside of a turn is cancelled");
  await resident.stop();
});
