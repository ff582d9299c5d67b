import { expect, test } from "vitest";
import type { Observation } from "../../../../bridge/drivers/driver.ts";
import type { PermissionDialog, QuestionDialog } from "../../../../bridge/drivers/pi/dialog.ts";
import { openTurnRequests } from "../../../../bridge/drivers/pi/turn-requests.ts";
import type { MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { LAUNCH } from "../../../support/samples.ts";
import { createRig } from "./rig.ts";

const POLICY: MemberPolicy = {
  default: "allow",
  rules: [
    { tool: "bash", pattern: "*", action: "ask" },
    { tool: "write", pattern: "/etc/*", action: "deny" },
  ],
  askLimitMs: 5000,
  askDefault: "deny",
};

async function bench(isTaken = true) {
  const clock = new FakeClock();
  const sent: Array<[string, unknown]> = [];
  const reports: Observation[] = [];
  const unresolved: string[] = [];
  const rig = await createRig({}, { questionMs: 9000 });
  const requests = openTurnRequests({
    request: rig.request({ clock, launch: { ...LAUNCH, permissions: POLICY } }),
    session: "s1",
    async send(dialog, reply) {
      sent.push([dialog, reply]);
      if (!isTaken) throw new Error("the pipe is full");
    },
    report: (observation) => reports.push(observation),
    onUnresolved: (code, detail) => unresolved.push(`${code} ${detail}`),
  });
  return { clock, sent, reports, unresolved, requests };
}

const permission = (id: string, more: Partial<PermissionDialog> = {}): PermissionDialog => ({
  kind: "permission",
  id,
  call: `call ${id}`,
  tool: "bash",
  patterns: ["ls"],
  ...more,
});
const question = (id: string, more: Partial<QuestionDialog> = {}): QuestionDialog => ({
  kind: "question",
  id,
  call: `call ${id}`,
  timeoutMs: null,
  items: [
    {
      header: "",
      question: "Which?",
      options: [{ label: "a", description: "" }],
      isMultiple: false,
      isOpen: false,
    },
  ],
  replyOf: (answers) => ({ value: String(answers[0]?.[0]) }),
  ...more,
});

test("what the policy allows or denies is answered at once, and confirmed by our extension", async () => {
  const { requests, sent, reports } = await bench();
  requests.asked(permission("p1", { tool: "write", patterns: ["/place/a"] }));
  requests.asked(permission("p2", { tool: "write", patterns: ["/etc/passwd"] }));
  expect(sent).toEqual([
    ["p1", { value: "allow" }],
    ["p2", { value: "reject" }],
  ]);
  requests.decided("call p1");
  requests.decided("call p2");
  requests.decided("call of nobody");
  expect(reports.filter(({ kind }) => kind === "permission_closed")).toMatchObject([
    { request: "p1", session: "s1", result: "confirmed", reply: "once", by: "policy" },
    { request: "p2", session: "s1", result: "confirmed", reply: "reject", by: "policy" },
  ]);
});

test("what the policy leaves to the user waits, and takes one answer", async () => {
  const { requests, sent, reports, clock } = await bench();
  requests.asked(permission("p1"));
  expect(reports).toMatchObject([
    {
      kind: "permission_asked",
      action: "ask",
      deadlineAt: clock.nowAt() + 5000,
      ancestry: [{ session: "s1" }],
    },
  ]);
  const refused = (session: string, id: string) => () => requests.answerPermission(session, id, "once");
  expect(refused("s2", "p1")).toThrow(expect.objectContaining({ code: "REQUEST_UNKNOWN" }));
  expect(refused("s1", "p9")).toThrow(expect.objectContaining({ code: "REQUEST_UNKNOWN" }));
  requests.answerPermission("s1", "p1", "once");
  expect(refused("s1", "p1")).toThrow(expect.objectContaining({ code: "REQUEST_CLOSED" }));
  requests.decided("call p1");
  expect(sent).toEqual([["p1", { value: "allow" }]]);
  expect(reports.at(-1)).toMatchObject({ kind: "permission_closed", by: "user", result: "confirmed" });
});

test("a permission that nobody answers is decided at the deadline, by the policy's word for that", async () => {
  const { requests, sent, clock, reports } = await bench();
  requests.asked(permission("p1"));
  clock.advance(4999);
  expect(sent).toEqual([]);
  clock.advance(1);
  expect(sent).toEqual([["p1", { value: "reject" }]]);
  requests.callEnded("call p1");
  expect(reports.at(-1)).toMatchObject({ by: "deadline", reply: "reject", result: "confirmed" });
});

test("a question is answered, rejected, or rejected at its deadline; the end of its call confirms it", async () => {
  const { requests, sent, clock, reports } = await bench();
  for (const id of ["q1", "q2", "q3"]) requests.asked(question(id));
  expect(() => requests.answerQuestion("s1", "q1", [["b"]])).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID" }),
  );
  requests.answerQuestion("s1", "q1", [["a"]]);
  requests.answerQuestion("s1", "q2", null);
  clock.advance(9000);
  expect(sent).toEqual([
    ["q1", { value: "a" }],
    ["q2", { cancelled: true }],
    ["q3", { cancelled: true }],
  ]);
  for (const id of ["q1", "q2", "q3"]) requests.callEnded(`call ${id}`);
  expect(reports.filter(({ kind }) => kind === "question_closed")).toMatchObject([
    { request: "q1", reply: "answered", by: "user", result: "confirmed" },
    { request: "q2", reply: "rejected", by: "user", result: "confirmed" },
    { request: "q3", reply: "rejected", by: "deadline", result: "confirmed" },
  ]);
});

test("a dialog that pi itself lets go of earlier is rejected then", async () => {
  const { requests, sent, clock, reports } = await bench();
  requests.asked(question("q1", { call: null, timeoutMs: 700 }));
  expect(reports[0]).toMatchObject({ kind: "question_asked", deadlineAt: clock.nowAt() + 700 });
  clock.advance(700);
  expect(sent).toEqual([["q1", { cancelled: true }]]);
});

test("before an abort everything open is cancelled, and so is what is asked on the way", async () => {
  const { requests, sent, reports } = await bench();
  requests.asked(permission("p1"));
  requests.asked(question("q1"));
  await requests.refuseAll();
  requests.asked(permission("p2", { tool: "write", patterns: ["/place/a"] }));
  requests.asked(question("q2"));
  const cancelled = { cancelled: true };
  expect(sent).toEqual([
    ["p1", cancelled],
    ["q1", cancelled],
    ["p2", cancelled],
    ["q2", cancelled],
  ]);
  requests.close("the turn ended");
  const closed = reports.filter(({ kind }) => kind === "permission_closed" || kind === "question_closed");
  expect(closed).toHaveLength(4);
  expect(closed[0]).toMatchObject({ request: "p1", reply: "reject", by: null });
});

test("at the turn's end what has its answer is confirmed, and what has none is cancelled: pi would wait on", async () => {
  const { requests, sent, reports } = await bench();
  requests.asked(question("q1", { call: null }));
  requests.asked(question("q2", { call: null }));
  requests.answerQuestion("s1", "q1", [["a"]]);
  await expect.poll(() => sent).toHaveLength(1);
  requests.settled();
  requests.close("the turn ended");
  expect(sent).toEqual([
    ["q1", { value: "a" }],
    ["q2", { cancelled: true }],
  ]);
  expect(reports.filter(({ kind }) => kind === "question_closed")).toMatchObject([
    { request: "q1", result: "confirmed", reply: "answered", by: "user" },
    { request: "q2", result: "closed_by_end", reply: null, by: null },
  ]);
});

test("a call that ends by itself over an open dialog withdraws it", async () => {
  const { requests, reports } = await bench();
  requests.asked(permission("p1"));
  requests.callEnded("call p1");
  expect(reports.at(-1)).toMatchObject({ kind: "permission_closed", result: "withdrawn", reply: null });
});

test("a reply that the pipe does not take is unresolved, each by its own code", async () => {
  const { requests, unresolved, reports } = await bench(false);
  requests.asked(permission("p1", { tool: "write" }));
  requests.asked(question("q1"));
  requests.answerQuestion("s1", "q1", null);
  await expect.poll(() => unresolved).toHaveLength(2);
  expect(unresolved[0]).toMatch(/^PERMISSION_UNRESOLVED /);
  expect(unresolved[1]).toMatch(/^QUESTION_UNRESOLVED /);
  expect(reports.filter((each) => "result" in each && each.result === "unresolved")).toHaveLength(2);
});

test("what exceeds the wire is cut for the record, and judged whole", async () => {
  const { requests, sent, reports } = await bench();
  const far = `${"x".repeat(3000)}`;
  requests.asked(
    permission("p1", { tool: "write", patterns: [...Array.from({ length: 70 }, () => far), "/etc/passwd"] }),
  );
  expect(sent).toEqual([["p1", { value: "reject" }]]);
  expect(reports[0]).toMatchObject({ kind: "permission_asked", action: "deny" });
  const { patterns } = (reports[0] as Extract<Observation, { kind: "permission_asked" }>).request;
  expect(patterns).toHaveLength(64);
  expect(patterns[0]).toHaveLength(2000);
});
