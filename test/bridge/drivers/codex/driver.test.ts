import { expect, test } from "vitest";
import { CODEX } from "../../../../bridge/drivers/codex/driver.ts";
import { until } from "../../../support/until.ts";
import { createRig, submit } from "./rig.ts";

test("the manifest says what codex can, and what it lacks", () => {
  expect(CODEX.manifest).toEqual({
    cli: "codex",
    gate: "answer-on-pipe",
    provesDelivery: false,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: true,
    fork: { when: "at_once", state: "home/.codex/sessions", except: [] },
    ranges: {},
  });
});

test("nobody can say whether a dead codex took a message", async () => {
  const rig = await createRig();
  expect(await CODEX.proveDelivery(rig.request(), "thread", "message")).toBe("unclear");
  expect(await rig.processes()).toBe(0);
});

test("an idle codex is ended by the end of its input, one in a turn by a signal", async () => {
  const idle = await createRig();
  expect(await (await idle.launch()).stop()).toEqual([]);
  await until("its exit", () => idle.told.includes("exit 0"), 5000);
  const busy = await createRig({ prompts: [{ steps: [{ say: "On." }] }] });
  const resident = await busy.launch();
  await submit(resident);
  await busy.seen("text");
  expect(await resident.stop()).toEqual([]);
  await until("its exit", () => busy.told.some((each) => each.startsWith("exit")), 5000);
  expect(busy.told).not.toContain("exit 0");
  expect(await busy.processes()).toBe(0);
});
