/** The link between a real bridge and a real controller, when what lies between them fails: public cases P33 to P35. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { realClock as bridgeClock } from "../../bridge/clock.ts";
import { openJournal } from "../../bridge/journal.ts";
import { startLinkClient } from "../../bridge/link-client.ts";
import { createOutbox } from "../../bridge/outbox.ts";
import { realClock } from "../../controller/clock.ts";
import { openSandboxLink } from "../../controller/sandbox-link.ts";
import { makeSandboxDirectory, sandboxPaths, sandboxToken } from "../../controller/sandboxes/directory.ts";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import type { PassedFrame } from "../../protocol/endpoint.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { MethodTable } from "../../protocol/methods.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import { context, delivered, ended, simpleRig } from "../controller/store/rig.ts";
import type { Script, Step } from "../stand-ins/claude/script.ts";
import { createMember, startTestHost, type TestHost, type TestHostOptions } from "../support/host.ts";
import { keptLog } from "../support/kept-log.ts";
import { AT, EVENTS } from "../support/samples.ts";
import { standIn } from "../support/stand-in.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { type Wire, wireInto } from "../support/wire.ts";
import { CLAUDE_MEMBER } from "./suite/claude-subject.ts";
import { bridgeOf, processesOf } from "./suite/processes.ts";
import { OPENCODE_SUBJECT } from "./suite/served.ts";

/** A host whose sandbox has a wire in its link from its first start on. */
async function wired(options: TestHostOptions = {}): Promise<{ t: TestHost; wire(): Wire }> {
  let wire: Wire | null = null;
  const between = (driver: SandboxDriver): SandboxDriver => ({
    ...driver,
    async start(spec, containerId) {
      wire ??= await wireInto(sandboxPaths(t.directory, spec.sandboxId).controllerSocket);
      return driver.start(spec, containerId);
    },
  });
  const t: TestHost = await startTestHost({ ...options, around: (drivers) => drivers.map(between) });
  tellOnFailure(t);
  return {
    t,
    wire() {
      if (wire === null) throw new Error("nothing was started");
      return wire;
    },
  };
}

/** Closes of the link in the bridge's log, for this cause. */
const closes = (directory: string, cause: string) =>
  readFileSync(`${directory}/bridge.log`, "utf8")
    .split("\n")
    .filter((line) => line.includes('"what":"link closed"') && line.includes(`"cause":"${cause}"`)).length;

test("P33, law 13: with every packet lost and no close both sides end the idle link within two intervals; it comes back, and the member is LIVE", async () => {
  const { t, wire } = await wired();
  const { sandbox, member } = createMember(t.host, "process");
  await play(t, member, "The code word is limpet.");
  const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
  const [cli] = await processesOf(sandbox, member, OPENCODE_SUBJECT.processText);
  const { made, ended: before } = { made: wire().made, ended: { ...wire().ended } };
  expect(made).toBe(1);

  wire().toController = "drop";
  wire().toBridge = "drop";
  const beganMs = performance.now();
  const boundMs = 2 * LIMITS.pingMs + 1500;
  await until(
    "both ends of the link",
    () =>
      wire().ended.byBridge > before.byBridge &&
      wire().ended.byController > before.byController &&
      closes(directory, "LINK_TIMEOUT") > 0,
    boundMs,
  );
  expect(performance.now() - beganMs).toBeGreaterThan(LIMITS.pingMs);
  // What is seen from outside meanwhile: no verdict over the conversation.
  expect(await t.host.nextContext(member)).not.toMatchObject({ status: "LOST" });

  wire().toController = "pass";
  wire().toBridge = "pass";
  wire().cut();
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ context: "LIVE", parts: ["The code word is limpet."] });
  expect(await processesOf(sandbox, member, OPENCODE_SUBJECT.processText)).toMatchObject([
    { pid: cli?.pid, startTicks: cli?.startTicks },
  ]);
});

const MEGABYTE = 1024 * 1024;
/** 500 MB of text in messages of 512 KB and pieces of 16 KB, half of it on each side of what is asked. */
const HALF: Step = { flood: { messages: 504, pieces: 32, chars: 16 * 1024 } };
const asks = (id: string, request: Record<string, unknown>): Step => ({
  print: { type: "control_request", request_id: id, request: { subtype: "can_use_tool", ...request } },
});
const PERMISSION = asks("p", { tool_name: "Bash", tool_use_id: "toolu_p", input: { command: "ls" } });
const QUESTION = asks("q", {
  tool_name: "AskUserQuestion",
  tool_use_id: "toolu_q",
  input: {
    questions: [
      { question: "Which?", header: "H", multiSelect: false, options: [{ label: "blue", description: "" }] },
    ],
  },
});
const answered = (id: string): Step => ({
  print: { type: "control_response", response: { subtype: "success", request_id: id, response: {} } },
});

test("P34, laws 10, 13: 500 MB of text towards a controller that reads nothing leave the bridge small; what was asked, and the end, come in order", async () => {
  const script: Script = {
    turns: [
      [
        { begin: true },
        HALF,
        PERMISSION,
        QUESTION,
        HALF,
        { until: "control_response" },
        { until: "control_response" },
        answered("p"),
        answered("q"),
        { answer: "Done." },
        { result: {} },
      ],
    ],
  };
  const path = join(temporaryDirectory(), "script");
  writeFileSync(path, JSON.stringify(script));
  const { t, wire } = await wired({
    commands: { claude: standIn("claude/main.ts", path) },
    // With all that was printed in its heap it would end.
    environment: { NODE_OPTIONS: "--max-old-space-size=64" },
  });
  const sandbox = t.host.createSandbox({ kind: "process" }).id;
  const permissions = { ...ALLOW_ALL, default: "ask" as const };
  const member = t.host.createMember({ sandbox, cli: "claude", ...CLAUDE_MEMBER, permissions }).id;
  await t.host.startSandbox(sandbox);
  const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
  const before = peakBytes(bridgeOf(directory));

  const turn = follow(t.host.submit(member, "Talk on and on."));
  await until("some text", () => turn.seen().length > 0, 30_000);
  wire().toController = "hold";
  const seen = turn.seen().length;
  const printed = (halves: number) =>
    until(
      "so much of it printed",
      () => readFileSync(`${path}.done`, { flag: "a+" }).length >= halves,
      90_000,
    );
  await printed(1);
  const half = peakBytes(bridgeOf(directory));
  await printed(2);
  const whole = peakBytes(bridgeOf(directory));
  process.stderr.write(
    `P34: peaks ${[before, half, whole].map((bytes) => Math.round(bytes / MEGABYTE))} MB\n`,
  );
  expect(turn.seen().length - seen).toBeLessThan(2 * LIMITS.windowBytes);
  expect(turn.all("turn.permission_asked")).toEqual([]);
  // Half of 500 MB more costs nothing more.
  expect(whole).toBeLessThan(300 * MEGABYTE);
  expect(whole - half).toBeLessThan(60 * MEGABYTE);

  wire().toController = "pass";
  const permission = await turn.heard("turn.permission_asked");
  const question = await turn.heard("turn.question_asked");
  const id = turn.handle.id;
  const of = ({ session, request }: { session: string; request: string }) => ({ turn: id, session, request });
  await t.host.answerPermission({ ...of(permission.request), reply: "once" });
  await t.host.answerQuestion({ ...of(question.question), answers: [["blue"]] });
  const settlement = await turn.end();
  expect(settlement).toMatchObject({ outcome: "completed", settled: true, textIsCut: true });
  const kept = t.host.store.eventsOf(id);
  const order = [
    "turn.permission_asked",
    "turn.question_asked",
    "turn.permission_closed",
    "turn.question_closed",
  ];
  expect(kept.map(({ event }) => event.type).filter((type) => order.includes(type))).toEqual(order);
  expect(turn.seen().length).toBe(settlement.parts.join("").length);
}, 240_000);

/** The most that the process has had in memory in its life. */
function peakBytes(pid: number): number {
  const found = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  if (found === undefined) throw new Error(`process ${pid} is gone`);
  return Number(found) * 1024;
}

/** A bridge's own journal, outbox and link, and a controller's own link and store, with a wire between them. */
async function ends() {
  const stored = simpleRig();
  const paths = sandboxPaths(temporaryDirectory(), "box");
  await makeSandboxDirectory(paths);
  const token = await sandboxToken(paths);
  const seen = { seqs: [] as number[], settled: [] as string[], text: "", downs: 0 };
  const open = () =>
    openSandboxLink({
      sandboxId: "box",
      paths,
      token,
      store: stored.store,
      clock: realClock,
      takeOver: false,
      unsent: new Set(),
      onUp: () => undefined,
      onDown: () => {
        seen.downs += 1;
      },
      onApplied({ events, settled }) {
        seen.seqs.push(...events.map(({ seq }) => seq));
        seen.settled.push(...settled.map(({ turn }) => turn));
      },
      onLost: (lost) => {
        if (lost.length > 0) throw new Error("turns were lost");
      },
      onText: (frames) => frames.forEach(take),
    });
  function take(frame: PassedFrame): void {
    if (frame.kind === "delta") seen.text = seen.text.slice(0, frame.offset) + frame.text;
    if (frame.kind === "snapshot") seen.text = frame.text;
  }
  let link = await open();
  const wire = await wireInto(paths.controllerSocket);
  const journal = await openJournal(join(paths.directory, "journal"), { nowAt: () => AT, log: keptLog() });
  const { journalId, epoch } = journal.state;
  stored.store.follow("box", { journalId, epoch, seq: 0, acked: 0 });
  stored.admit("t-1");
  let text = "";
  const outbox = createOutbox({ unacked: () => journal.state.unacked, textOf: () => text });
  const client = startLinkClient({
    socketPath: paths.controllerSocket,
    sandboxId: "box",
    token,
    journal,
    outbox,
    methods: {} as MethodTable,
    clock: bridgeClock,
    log: keptLog(),
  });
  journal.onDurable(() => client.wake());
  onTestFinished(async () => {
    client.stop();
    await link.close();
    await journal.close();
  });
  return {
    seen,
    wire,
    journal,
    store: () => stored.store,
    say(more: string) {
      outbox.touch("t-1", "p", text.length);
      text += more;
      client.wake();
    },
    text: () => text,
    async restartController() {
      wire.leave();
      await link.close();
      stored.reopen();
      link = await open();
    },
  };
}

for (const restarts of [false, true]) {
  const how = restarts ? "the controller restarted in between" : "the link cut";
  test(`P35, law 10: 50 events, 40 acknowledged, ${how}: each takes effect once, in order, the text is there once, one settlement counts`, async () => {
    const made = await ends();
    const { seen, wire, journal } = made;
    const events: ControlEvent[] = [
      context("t-1", "NEW", "ses_1"),
      delivered("t-1"),
      ...Array.from({ length: 47 }, () => EVENTS["turn.tool"]),
      ended("t-1"),
    ];
    expect(events).toHaveLength(50);
    const append = async (from: number, to: number) => {
      for (const event of events.slice(from, to)) await journal.append(event);
    };
    await append(0, 40);
    made.say("half of it, ");
    await until("40 acknowledged", () => journal.state.acked === 40 && seen.text === made.text());
    // Applied, and the word of it never arrives.
    wire.toBridge = "drop";
    await append(40, 45);
    await until("45 applied", () => made.store().sandbox("box")?.applied === 45);
    // Sent, and never arrives.
    wire.toController = "drop";
    made.say("and the rest");
    await append(45, 50);
    await until("something on its way", () => wire.dropped.toController > 0);
    expect(journal.state.acked).toBe(40);
    expect(made.store().turn("t-1")?.state).toBe("delivered");

    wire.cut();
    if (restarts) await made.restartController();
    wire.toBridge = "pass";
    wire.toController = "pass";
    await until("the rest", () => journal.state.acked === 50, 20_000);
    expect(seen.seqs).toEqual(events.map((_, at) => at + 1));
    expect(seen.settled).toEqual(["t-1"]);
    // The end is in the turn itself.
    const kept = made.store().eventsOf("t-1");
    expect(kept.map(({ seq }) => seq)).toEqual(Array.from({ length: 49 }, (_, at) => at + 1));
    expect(made.store().member("m-1")).toMatchObject({ settled_turns: 1 });
    expect(seen.text).toBe("half of it, and the rest");
  });
}
