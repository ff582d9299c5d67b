import { expect, test } from "vitest";
import type { Step } from "../../../stand-ins/pi/script.ts";
import { createRig, SESSION, submit } from "./rig.ts";

const AGENT_END: Step = { print: { type: "agent_end", messages: [], willRetry: false } };
const SETTLED: Step = { print: { type: "agent_settled", aborted: false } };
const ABORTED: Step = { print: { type: "agent_settled", aborted: true } };
const turn = (...steps: Step[]) => ({ prompts: [{ steps }] });

test("a turn tells its beginning, its text and its end, with evidence of each", async () => {
  const rig = await createRig();
  const resident = await rig.launch();
  await submit(resident);
  const end = await rig.seen("native_end");
  expect(rig.observations.map(({ kind }) => kind)).toEqual(["own_event", "text", "native_end"]);
  expect(end).toMatchObject({
    status: "completed",
    error: null,
    tail: { role: "assistant", id: "000000e2" },
    usage: { source: "cli", inputTokens: 10, outputTokens: 5 },
    evidence: [{ what: "agent_settled", source: "stream", subscription: 1 }],
  });
  await resident.stop();
});

test("C3: agent_end alone is no end; when no final one follows in time, that is said", async () => {
  const rig = await createRig(turn({ answer: "One." }, AGENT_END));
  const resident = await rig.launch();
  await submit(resident);
  expect(await rig.seen("end_overdue")).toMatchObject({ error: null, evidence: { what: "end_overdue" } });
  expect(rig.of("native_end")).toEqual([]);
  await resident.stop();
});

test("C3: a compaction behind agent_end takes its time", async () => {
  const rig = await createRig(
    turn(
      { answer: "One." },
      AGENT_END,
      { print: { type: "compaction_start", reason: "threshold" } },
      { until: "get_state" },
      { print: { type: "compaction_end", willRetry: false } },
      SETTLED,
    ),
    { endOverdueMs: 100 },
  );
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("text");
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(rig.of("end_overdue")).toEqual([]);
  await resident.verify();
  await rig.seen("native_end");
  await resident.stop();
});

test("P28: a terminal message that is glued to noise is found; one that is damaged loses the pipe", async () => {
  const glued = await createRig(
    turn({ answer: "One." }, AGENT_END, { raw: "\u001b]0;title\u0007npm warn " }, SETTLED),
  );
  const well = await glued.launch();
  await submit(well);
  expect(await glued.seen("native_end")).toMatchObject({ status: "completed" });
  await well.stop();

  const damaged = await createRig(
    turn({ answer: "One." }, AGENT_END, { raw: '{"type":"agent_settled","abor\n' }),
  );
  const ill = await damaged.launch();
  await submit(ill);
  expect(await damaged.seen("stream_lost")).toMatchObject({ reason: expect.stringContaining("damaged") });
  expect(ill.subscription()).toBeNull();
  await ill.stop();
});

test("a turn whose records can't be asked for has no proven end", async () => {
  const rig = await createRig(turn({ answer: "One." }, { deafTo: "get_entries" }, AGENT_END, SETTLED), {
    requestMs: 300,
  });
  const resident = await rig.launch();
  await submit(resident);
  expect(await rig.seen("end_overdue")).toMatchObject({
    evidence: { detail: expect.stringContaining("records are not known") },
  });
  expect(rig.of("native_end")).toEqual([]);
  await resident.stop();
});

test("a wait for the provider is told with the time of the next try, and has a limit that no further wait extends", async () => {
  const retry = (attempt: number): Step => ({
    print: { type: "auto_retry_start", attempt, delayMs: 60_000, errorMessage: "529 overloaded" },
  });
  const rig = await createRig(
    turn({ answer: "", stopReason: "error" }, retry(1), { until: "get_state" }, retry(2), {
      until: "abort",
    }),
    { providerWaitMs: 300 },
  );
  const resident = await rig.launch();
  await submit(resident);
  const first = await rig.seen("waiting");
  expect(first).toMatchObject({ attempt: 1, reason: "529 overloaded", nextAt: expect.any(Number) });
  expect(Number(first.nextAt)).toBeGreaterThan(Date.now() + 50_000);
  await resident.verify();
  expect(await rig.seen("provider_late")).toMatchObject({ reason: "529 overloaded" });
  await resident.stop();
});

test("an abort cancels open dialogs first, and is over when pi has settled", async () => {
  const title = JSON.stringify({ say: "permission", call: "c1", tool: "bash", patterns: ["ls"] });
  const options = ["allow", "reject"];
  const rig = await createRig(
    turn(
      { print: { type: "extension_ui_request", id: "d1", method: "select", title, options } },
      { until: "extension_ui_response" },
      { print: { type: "tool_execution_end", toolCallId: "c1", toolName: "bash", isError: true } },
      { until: "abort" },
      { answer: "", stopReason: "aborted" },
      AGENT_END,
      ABORTED,
    ),
  );
  const resident = await rig.launch({
    launch: {
      ...rig.request().launch,
      permissions: { default: "ask", rules: [], askLimitMs: 60_000, askDefault: "deny" },
    },
  });
  await submit(resident);
  await rig.seen("permission_asked");
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("permission_closed")).toMatchObject({
    reply: "reject",
    by: null,
    result: "confirmed",
  });
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted", error: null });
  await resident.stop();
});

test("an abort without effect is said in time", async () => {
  const rig = await createRig(turn({ answer: "One." }, { until: "nothing" }), { abortMs: 300 });
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("own_event");
  expect(await resident.abort()).toBe(false);
  await resident.stop();
});

test("behind the turn's close nothing is told, and what was open is closed in our books", async () => {
  const rig = await createRig(
    turn(
      { print: { type: "extension_ui_request", id: "d1", method: "input", title: "Name?" } },
      { until: "get_state" },
      { answer: "Late." },
      AGENT_END,
      SETTLED,
    ),
  );
  const resident = await rig.launch();
  await submit(resident);
  await rig.seen("question_asked");
  resident.endTurn();
  expect(await rig.seen("question_closed")).toMatchObject({ request: "d1", session: SESSION });
  const before = rig.observations.length;
  await resident.verify();
  await expect.poll(() => rig.told).toContain(`unrequested ended in ${SESSION}`);
  expect(rig.observations).toHaveLength(before);
  await resident.stop();
});
