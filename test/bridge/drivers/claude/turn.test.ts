// The clocks of a turn: its acceptance, its abort, the provider's waits and the grace behind subagents; on the stand-in.
import { expect, test } from "vitest";
import type { Step } from "../../../stand-ins/claude/script.ts";
import { within } from "../../../support/until.ts";
import { partsOf, standInRig, submit } from "./rig.ts";

const system = (subtype: string, more: Record<string, unknown> = {}): Step => ({
  print: { type: "system", subtype, session_id: "SESSION", ...more },
});
const tasks = (...types: string[]): Step =>
  system("background_tasks_changed", {
    tasks: types.map((task_type, at) => ({ task_id: `t${at}`, task_type, description: `task ${at}` })),
  });
const retry = (delay: number): Step =>
  system("api_retry", { attempt: 1, retry_delay_ms: delay, error: "overloaded", error_status: 529 });
const aborted: Step = {
  result: { subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_streaming" },
};

test("the CLI's own acceptance is the turn's first event, while the provider is silent", async () => {
  const rig = await standInRig({ turns: [[{ begin: true }]] });
  const resident = await rig.launch();
  const message = await submit(resident, "Are you there?");
  const { evidence } = await rig.seen("own_event");
  expect(evidence).toMatchObject({ what: "command_lifecycle started", source: "stream", detail: message });
  expect(rig.of("text")).toEqual([]);
});

test("law 6: an abort asks once, when the turn has begun, and is quiet when the CLI has said its end", async () => {
  const rig = await standInRig({
    turns: [[{ afterMs: 400 }, { begin: true }, { until: "interrupt" }, { afterMs: 100 }, aborted]],
  });
  const resident = await rig.launch();
  await submit(resident, "Go on.");
  const interrupts = () =>
    rig.lines().filter(({ request }) => (request as { subtype?: string })?.subtype === "interrupt");
  const aborting = resident.abort();
  // Behind the answer to a later request: an interrupt that had been sent would have been read.
  await resident.gate();
  expect(rig.of("own_event")).toEqual([]);
  expect(interrupts()).toEqual([]);
  expect(await within("the abort", aborting)).toBe(true);
  expect(rig.of("native_end")).toMatchObject([{ status: "aborted" }]);
  expect(interrupts()).toHaveLength(1);
  const kinds = rig.observations.map(({ kind }) => kind);
  expect(kinds.indexOf("own_event")).toBeLessThan(kinds.indexOf("native_end"));
});

test("law 6: an abort that the CLI does not heed is not quiet, within its limit", async () => {
  const deaf = await standInRig(
    { turns: [[{ begin: true }]], deafTo: ["interrupt"] },
    { limits: { abortMs: 500 } },
  );
  const resident = await deaf.launch();
  await submit(resident, "Go on.");
  await deaf.seen("own_event");
  expect(await within("the abort", resident.abort())).toBe(false);
  const late = await standInRig({ turns: [[]] }, { limits: { abortMs: 300 } });
  const unstarted = await late.launch();
  await submit(unstarted, "Begin.");
  expect(await within("the abort of what never began", unstarted.abort())).toBe(false);
});

test("P19: a wait for the provider is told with the time of the next try, and at its limit the turn is late; an answer ends the wait", async () => {
  const rig = await standInRig(
    { turns: [[{ begin: true }, retry(30), { answer: "A. " }, { afterMs: 500 }, retry(86_400_000)]] },
    { limits: { providerWaitMs: 400 } },
  );
  const resident = await rig.launch();
  const before = Date.now();
  await submit(resident, "Wait.");
  const late = await rig.seen("provider_late");
  expect(late.reason).toContain("overloaded");
  const waits = rig.of("waiting");
  expect(waits).toMatchObject([{ attempt: 1, reason: "overloaded (529)" }, { attempt: 1 }]);
  expect(waits[1]?.nextAt ?? 0).toBeGreaterThan(before + 86_000_000);
  expect(partsOf(rig)).toEqual(["A. "]);
});

test("the end waits for a subagent and for the CLI's turn over it; then it is one end, with all of the text", async () => {
  const rig = await standInRig({
    turns: [
      [
        { begin: true },
        tasks("local_agent"),
        { answer: "Gone on." },
        { result: {} },
        { afterMs: 300 },
        tasks(),
        { afterMs: 90 },
        system("init", { slash_commands: [] }),
        { answer: "Noticed." },
        { result: {} },
      ],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "Delegate.");
  const end = await rig.seen("native_end");
  expect(end.status).toBe("completed");
  expect(partsOf(rig)).toEqual(["Gone on.", "Noticed."]);
  expect(rig.of("native_end")).toHaveLength(1);
  // It is the turn's, and nothing that nobody asked for.
  expect(rig.unrequested).toEqual([]);
});

test("a subagent that brings nothing on ends the turn behind a bounded grace", async () => {
  const rig = await standInRig({
    turns: [[{ begin: true }, tasks("local_agent"), { answer: "Gone on." }, { result: {} }, tasks()]],
  });
  const resident = await rig.launch();
  await submit(resident, "Delegate.");
  expect((await rig.seen("native_end")).evidence[0]).toMatchObject({
    what: "result, and no subagent left",
    source: "stream",
  });
});

test("a background shell does not hold the end and stands in the evidence", async () => {
  const rig = await standInRig({
    turns: [[{ begin: true }, { answer: "Started." }, tasks("local_bash"), { result: {} }]],
  });
  const resident = await rig.launch();
  await submit(resident, "Start.");
  const { evidence } = await rig.seen("native_end");
  expect(evidence.map(({ what, detail }) => [what, detail])).toEqual([
    ["result", "completed"],
    ["background_shell", "task 0"],
  ]);
});

test("law 6: a turn that was let go of reports nothing more, and what it leaves is the next tail", async () => {
  const rig = await standInRig({
    turns: [
      [{ begin: true }, { answer: "A." }, { result: {} }],
      [{ begin: true }, { print: { type: "result", subtype: "success", is_error: false, num_turns: 0 } }],
    ],
  });
  const resident = await rig.launch();
  await submit(resident, "First.");
  const { tail } = await rig.seen("native_end");
  resident.endTurn();
  const count = rig.observations.length;
  await resident.gate();
  expect(rig.observations).toHaveLength(count);
  rig.observations.length = 0;
  const message = await submit(resident, "Second.");
  // Its own message was played back, so that stands last now.
  expect(tail?.role).toBe("assistant");
  expect((await rig.seen("native_end")).tail).toEqual({ role: "user", id: message });
});
