/** Codex 0.171.0: what is left of a turn, what is tried again, and what stays between the member and its model. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { expect, test } from "vitest";
import { listSlot, type ProcessEntry } from "../../bridge/census.ts";
import { follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { CODEX_SUBJECT } from "./suite/codex-subject.ts";
import { eventsOf, processesOf, slotOf } from "./suite/processes.ts";
import { abortOf, openStage, required, settled } from "./suite/subject.ts";

const stage = openStage(CODEX_SUBJECT);
const { shell, task } = CODEX_SUBJECT.tools;
const spawnChild = required(task);

async function running(member: string, text: string): Promise<ProcessEntry[]> {
  return processesOf(stage().sandbox, member, text);
}

async function codexOf(member: string): Promise<number> {
  const [codex] = await running(member, "codex app-server");
  return required(codex ?? null).pid;
}

test("an aborted turn's command is ended with all that it started, escaped ones too; an earlier turn's work and codex stay", async () => {
  const { t, fresh } = stage();
  const member = await settled(stage(), fresh());
  const codex = await codexOf(member);
  t.model.script("Leave a server", [
    { kind: "reply", toolCalls: [shell("(setsid sleep 771 >/dev/null 2>&1 &) ; true")] },
    "Left.",
  ]);
  expect((await play(t, member, "Leave a server.")).settlement.outcome).toBe("completed");
  expect(await running(member, "sleep 771")).toHaveLength(1);
  t.model.script("Work on", [
    { kind: "reply", toolCalls: [shell("(setsid sleep 772 >/dev/null 2>&1 &) ; sleep 773; sleep 774")] },
    "Never.",
  ]);
  const turn = follow(t.host.submit(member, "Work on."));
  await until("the command", async () => (await running(member, "sleep 773")).length > 0, 30_000);
  expect(await running(member, "sleep 772")).not.toEqual([]);
  expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
  // Without a wait: it was done before the turn settled.
  for (const seconds of [772, 773, 774]) expect(await running(member, `sleep ${seconds}`)).toEqual([]);
  expect(await running(member, "sleep 771")).toHaveLength(1);
  const next = await play(t, member, "Are you there?");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
  expect(await codexOf(member)).toBe(codex);
  expect((await listSlot(slotOf(stage().sandbox, member))).map(({ command }) => command).sort()).toEqual([
    "codex",
    "sleep",
  ]);
});

for (const background of [false, true]) {
  test(`law 15: a command that its turn did not wait for ${background ? "works on where the member allows it" : "is ended with the turn"}`, async () => {
    const { t, fresh } = stage();
    const member = fresh({ background });
    const cmd = "sleep 775";
    t.model.script("Start and go", [
      { kind: "reply", toolCalls: [{ name: "exec_command", arguments: { cmd, yield_time_ms: 250 } }] },
      "Gone.",
    ]);
    const { settlement } = await play(t, member, "Start and go.");
    expect(settlement).toMatchObject({ outcome: "completed", parts: ["Gone."], keepsProcess: true });
    expect(await running(member, cmd)).toHaveLength(background ? 1 : 0);
    expect((await play(t, member, "And now?")).settlement.context).toBe("LIVE");
  });
}

test("law 15: a subagent's command is ended with the turn too, whether its subagent had ended or is interrupted", async () => {
  const { t, fresh } = stage();
  const member = fresh();
  for (const [wait, yieldMs] of [
    [false, 30_000],
    [true, 250],
  ] as const) {
    const cmd = wait ? "sleep 776" : "sleep 777";
    t.model.script(`Delegate ${cmd}`, [
      { kind: "reply", toolCalls: [spawnChild(`The child runs ${cmd}`)] },
      ...(wait ? [{ kind: "reply" as const, toolCalls: [required(CODEX_SUBJECT.tools.taskEnd)()] }] : []),
      { kind: "reply", text: "Gone.", beforeFirstByteMs: 2000 },
    ]);
    t.model.script(`The child runs ${cmd}`, [
      { kind: "reply", toolCalls: [{ name: "exec_command", arguments: { cmd, yield_time_ms: yieldMs } }] },
      "The child is done.",
    ]);
    const turn = follow(t.host.submit(member, `Delegate ${cmd}.`));
    await until("the child's command", async () => (await running(member, cmd)).length > 0, 30_000);
    expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["Gone."], keepsProcess: true });
    expect(await running(member, cmd)).toEqual([]);
  }
});

/** A turn with a subagent that is at work and would never end. */
async function withChild(member: string, end: string) {
  const { t } = stage();
  t.model.script("Delegate for ever", [
    { kind: "reply", toolCalls: [spawnChild("The child talks for ever.")] },
    end === "" ? { kind: "neverEnd", text: "main " } : { kind: "reply", text: end, beforeFirstByteMs: 700 },
  ]);
  t.model.script("The child talks", [{ kind: "neverEnd", text: "child " }]);
  const turn = follow(t.host.submit(member, "Delegate for ever."));
  const child = await t.model.waitForRequest(({ agent }) => agent !== null, 30_000);
  await until("the child's talk", () => turn.all("turn.tool").length > 1, 30_000);
  return { turn, child: child.agent };
}

const hasGone = (child: string | null) =>
  stage().t.model.waitForRequest(({ agent, ending }) => agent === child && ending === "gone", 5000);

test("law 6: an abort ends the subagents too, which codex itself lets go on", async () => {
  const { t, fresh } = stage();
  const member = await settled(stage(), fresh());
  const { turn, child } = await withChild(member, "");
  const settlement = await abortOf(turn);
  expect(settlement).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
  expect(settlement.parts.join("")).not.toContain("child");
  await hasGone(child);
  t.model.reset();
  expect((await play(t, member, "After it.")).settlement).toMatchObject({
    outcome: "completed",
    context: "LIVE",
  });
});

test("laws 6, 15: the main thread's end settles the turn while a subagent works on, which is then ended", async () => {
  const { fresh, directory } = stage();
  const member = await settled(stage(), fresh());
  const { turn, child } = await withChild(member, "Main's end.");
  expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Main's end."] });
  await hasGone(child);
  const events = eventsOf(directory).filter(
    (event) => event.type === "member.unrequested" && event.member === member,
  );
  expect(events).toEqual([]);
});

test("a subagent that may work on and asks behind its turn is refused: nothing waits for ever, and the next turn is its own", async () => {
  const { t, fresh, directory } = stage();
  const { policy } = { policy: { tool: "exec_command", pattern: "*", action: "ask" } as const };
  const member = fresh({
    background: true,
    permissions: { ...CODEX_SUBJECT.member.permissions, rules: [policy], askLimitMs: 60_000 },
  });
  t.model.script("Delegate and leave", [
    { kind: "reply", toolCalls: [spawnChild("The child asks later.")] },
    "Left.",
  ]);
  t.model.script("The child asks later", [
    { kind: "reply", toolCalls: [shell("printf x > asked-later.txt")], beforeFirstByteMs: 1500 },
    "The child is done.",
  ]);
  const turn = await play(t, member, "Delegate and leave.");
  expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Left."] });
  const told = () =>
    eventsOf(directory).flatMap((event) =>
      event.type === "member.unrequested" && event.member === member ? [event] : [],
    );
  await until("the child's end", () => told().some(({ state }) => state === "ended"), 20_000);
  expect(told().map(({ state }) => state)).toEqual(["started", "ended"]);
  expect(told()[0]?.session).not.toBe(turn.settlement.session?.nativeId);
  const rows = t.model
    .mainRequests()
    .flatMap(({ agent, request }) => (agent === null ? [] : (request?.rows ?? [])));
  expect(rows.findLast(({ role }) => role === "tool")?.text).toContain("rejected by user");
  expect(turn.all("turn.permission_asked")).toEqual([]);
  expect((await play(t, member, "Mine.")).settlement).toMatchObject({
    outcome: "completed",
    context: "LIVE",
  });
});

test("a 429 that names no time is not tried again: the turn fails, settled, and the next one is LIVE", async () => {
  const { t, steady } = stage();
  const member = await settled(stage(), steady());
  t.model.script("Too many", [{ kind: "status", status: 429 }]);
  const turn = await play(t, member, "Too many of them.");
  expect(turn.settlement).toMatchObject({
    outcome: "failed",
    settled: true,
    keepsProcess: true,
    error: { code: "NATIVE_FAILED", message: expect.stringContaining("429") },
  });
  expect(turn.all("turn.waiting")).toEqual([]);
  expect(t.model.mainRequests()).toHaveLength(1);
  t.model.reset();
  expect((await play(t, member, "Fewer.")).settlement).toMatchObject({
    outcome: "completed",
    context: "LIVE",
  });
});

test("every try behind a 500 is told as a wait, and no address of ours leaves with it", async () => {
  const { t, steady } = stage();
  const member = await settled(stage(), steady());
  t.model.script("Stumble", [{ kind: "reply", text: "Up again.", failFirst: { times: 3, status: 503 } }]);
  const turn = await play(t, member, "Stumble, please.");
  expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Up again."] });
  expect(turn.all("turn.waiting").map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  const reasons = turn.all("turn.waiting").map(({ reason }) => reason);
  expect(reasons.join()).toMatch(/503/);
  expect(reasons.join()).not.toMatch(/127\.0\.0\.1|http:/);
});

test("an open answer to a question reaches the model as it was given", async () => {
  const { t, steady } = stage();
  t.model.script("Ask openly", [
    { kind: "reply", toolCalls: [required(CODEX_SUBJECT.tools.question)()] },
    "So be it.",
  ]);
  const turn = follow(t.host.submit(steady(), "Ask openly."));
  const { question } = await turn.heard("turn.question_asked");
  expect(question.items[0]).toMatchObject({ isOpen: true, isMultiple: false });
  const { session, request } = question;
  await t.host.answerQuestion({ turn: turn.handle.id, session, request, answers: [["a third one"]] });
  expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["So be it."] });
  const row = t.model
    .mainRequests()
    .at(-1)
    ?.request?.rows.findLast(({ role }) => role === "tool");
  expect(JSON.parse(row?.text ?? "")).toEqual({ answers: { colour: { answers: ["a third one"] } } });
});

test("P43, law 14: no argument or variable is large or secret; every socket of codex is on loopback, and it listens on none", async () => {
  const { t, fresh } = stage();
  const member = fresh({ model: { ...CODEX_SUBJECT.member.model, name: "n".repeat(200) } });
  t.model.script("Stay a while", [{ kind: "neverEnd", text: "staying " }]);
  const turn = follow(t.host.submit(member, "Stay a while."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  const pid = await codexOf(member);
  const [args, variables] = ["cmdline", "environ"].map((name) =>
    readFileSync(`/proc/${pid}/${name}`, "utf8").split("\0"),
  );
  for (const each of [...(args ?? []), ...(variables ?? [])]) expect(each.length).toBeLessThan(1024);
  expect(args?.join()).not.toMatch(/key(?!="HOLDFAST_MODEL_KEY")=|token|secret/i);
  expect(variables).toContainEqual(
    expect.stringMatching(new RegExp(`^HOLDFAST_MODEL_KEY=hfm\\.${member}\\.\\d+\\.\\d+\\.[\\w-]{43}$`)),
  );
  const { remotes, listening } = socketsOf(pid);
  expect(remotes.length).toBeGreaterThan(0);
  expect(remotes.filter((address) => address !== "0100007F")).toEqual([]);
  expect(listening).toEqual([]);
  await abortOf(turn);
});

test("codex is ended by the end of its input: it leaves with 0, and its thread can be taken up at once", async () => {
  const own = stage().apart();
  const member = await settled(own, own.fresh());
  await own.t.host.stopSandbox(own.sandbox);
  const ends = eventsOf(own.directory).filter(
    (event) => event.type === "member.process" && event.member === member && event.state === "exited",
  );
  expect(ends).toMatchObject([{ detail: "code 0, signal null" }]);
  const next = await play(own.t, member, "Again.");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
});

/** Peers of its connections, in the kernel's own writing, and what it listens on. UDP and IPv6 included. */
function socketsOf(pid: number): { remotes: string[]; listening: string[] } {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch (error) {
        // Closed while we look.
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
        throw error;
      }
    }),
  );
  const rows = ["tcp", "tcp6", "udp", "udp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .map((row) => row.trim().split(/\s+/))
      .filter((fields) => inodes.has(fields[9] ?? "")),
  );
  const isListening = (fields: string[]) => fields[3] === "0A";
  return {
    remotes: rows.filter((fields) => !isListening(fields)).map((fields) => fields[2]?.split(":")[0] ?? ""),
    listening: rows.filter(isListening).map((fields) => fields[1] ?? ""),
  };
}

test("law 1: what codex puts into the user's place is named, each for itself, and nothing is merged", async () => {
  const { t, fresh, directory } = stage();
  // So that the subagent comes to its own end.
  const member = fresh({ background: true });
  const userRows = () =>
    (t.model.mainRequests().findLast(({ agent }) => agent === null)?.request?.rows ?? [])
      .filter(({ role }) => role === "user")
      .map(({ text, texts }) => {
        expect(texts).toHaveLength(1);
        return /^<([a-z_]+)>\n[\s\S]*<\/\1>$/.exec(text)?.[1] ?? text;
      });
  await play(t, member, "The first.");
  expect(userRows()).toEqual(["environment_context", "The first."]);
  t.model.script("The second", [{ kind: "neverEnd", text: "on " }]);
  const second = follow(t.host.submit(member, "The second."));
  await until("some text", () => second.seen().length > 5, 30_000);
  await abortOf(second);
  t.model.script("The third", [{ kind: "status", status: 400 }]);
  await play(t, member, "The third.");
  t.model.script("The fourth", [{ kind: "reply", toolCalls: [spawnChild("The child is quick.")] }, "Left."]);
  t.model.script("The child is quick", [{ kind: "reply", text: "Done.", beforeFirstByteMs: 700 }]);
  await play(t, member, "The fourth.");
  await until("the child's end", () =>
    eventsOf(directory).some(
      (event) => event.type === "member.unrequested" && event.member === member && event.state === "ended",
    ),
  );
  await play(t, member, "The fifth.");
  expect(userRows()).toEqual([
    "environment_context",
    "The first.",
    "The second.",
    "turn_aborted",
    "The third.",
    "The fourth.",
    "subagent_notification",
    "The fifth.",
  ]);
});

test("law 1: a text that names a skill of codex's own brings nothing along", async () => {
  const { t, fresh } = stage();
  await play(t, fresh(), "Use $skill-creator now.");
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  expect(rows.flatMap(({ texts }) => texts).filter((text) => text.includes("<skill>"))).toEqual([]);
  expect(rows.flatMap(({ texts }) => texts)).toContain("Use $skill-creator now.");
});
