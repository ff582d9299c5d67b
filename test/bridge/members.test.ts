import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Journal, openJournal } from "../../bridge/journal.ts";
import { createMembers, type Members } from "../../bridge/members.ts";
import { createOutbox, type Outbox } from "../../bridge/outbox.ts";
import type { Submission } from "../../bridge/turn-runner.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { type FakeDriver, fakeDriver, NATIVE_END, OWN_EVENT } from "../support/fake-driver.ts";
import { keptLog } from "../support/kept-log.ts";
import { AT, EVENTS, LAUNCH, LAUNCH_PARTS, PARAMS } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";

interface Scene {
  members: Members;
  journal: Journal;
  outbox: Outbox;
  driver: FakeDriver;
  clock: FakeClock;
  broken: HoldfastError[];
  journalPath: string;
  /** Times that there was something to send. */
  readies: number;
}

async function scene(options: { journalPath?: string; unackedEvents?: number } = {}): Promise<Scene> {
  const directory = temporaryDirectory();
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
  const journalPath = options.journalPath ?? join(directory, "state", "journal");
  const log = keptLog();
  const journal = await openJournal(journalPath, { nowAt: () => AT, log });
  onTestFinished(() => journal.close().catch(() => undefined /* closed by the test */));
  const made: Scene = {
    journal,
    journalPath,
    driver: fakeDriver(),
    clock: new FakeClock(),
    broken: [],
    readies: 0,
    outbox: createOutbox({
      unacked: () => journal.state.unacked,
      textOf: (turn, part) => made.members.textOf(turn, part),
    }),
    members: null as unknown as Members,
  };
  made.members = createMembers({
    config: {
      storeId: "store-1",
      sandboxId: "box-1",
      isolation: "process",
      controllerSocket: "/none",
      modelSocket: "/none",
      tokenFile: "/none",
      stateDirectory: "/none",
      slotsDirectory: join(directory, "slots"),
      workspace: join(directory, "workspace"),
      users: null,
      clis: [{ cli: "opencode", version: "1.14.50", command: ["/never/launched"] }],
      limits: DEFAULT_LIMITS,
    },
    journal,
    outbox: made.outbox,
    clock: made.clock,
    log,
    modelUrl: "http://127.0.0.1:1",
    modelToken: (member, generation) => `token-${member}-${generation}`,
    onReady: () => {
      made.readies += 1;
    },
    onBroken: (error) => made.broken.push(error),
    drivers: new Map([["opencode", made.driver]]),
    ...(options.unackedEvents !== undefined && { unackedEvents: options.unackedEvents }),
  });
  return made;
}

function submission(number: number, over: Partial<Submission> = {}): Submission {
  return { ...PARAMS["turn.submit"], turn: `t-${number}`, number, settledTurns: 0, locator: null, ...over };
}

function events(journal: Journal, turn: string): ControlEvent[] {
  return journal.state.unacked
    .map(({ event }) => event)
    .filter((event) => "turn" in event && event.turn === turn);
}

function endOf(journal: Journal, turn: string) {
  return events(journal, turn).find((event) => event.type === "turn.ended");
}

async function ended(made: Scene, turn: string) {
  const event = await until(`the end of ${turn}`, () => endOf(made.journal, turn));
  await until("its member is free", () => !made.members.isActive(turn));
  return event.settlement;
}

async function running(made: Scene, turn: Submission): Promise<void> {
  const prompts = () => made.driver.residents.flatMap((resident) => resident.prompts).length;
  const before = prompts();
  await made.members.submit(turn);
  await until("the prompt is out", () => prompts() > before);
  made.driver.observe(OWN_EVENT);
}

async function codeOf(work: Promise<unknown> | (() => unknown)): Promise<string> {
  try {
    await (typeof work === "function" ? work() : work);
    return "none";
  } catch (error) {
    return error instanceof HoldfastError ? error.code : String(error);
  }
}

test("a submission is answered when its acceptance is in the journal, and then goes its way", async () => {
  const made = await scene();
  await made.members.submit(submission(1));
  expect(readFileSync(made.journalPath, "utf8")).toContain('"type":"turn.accepted"');
  expect(made.members.isActive("t-1")).toBe(true);
  await until("the prompt is out", () => made.driver.residents[0]?.calls.includes("submit"));
  made.driver.observe(OWN_EVENT);
  made.driver.observe({ kind: "text", part: "p", from: 0, text: "Größe" });
  expect(made.members.textOf("t-1", "p")).toBe("Größe");
  made.driver.observe(NATIVE_END);
  expect(await ended(made, "t-1")).toMatchObject({ outcome: "completed", parts: ["Größe"] });
  expect(made.members.textOf("t-1", "p")).toBe("");
  expect(events(made.journal, "t-1").map(({ type }) => type)).toEqual([
    "turn.accepted",
    "turn.context",
    "turn.gated",
    "turn.submitting",
    "turn.delivered",
    "turn.ended",
  ]);
});

test("text of a turn is announced to the outbox, stays behind its end, and is forgotten when that took effect", async () => {
  const made = await scene();
  made.outbox.open(0);
  await running(made, submission(1));
  const before = made.readies;
  made.driver.observe({ kind: "text", part: "p", from: 0, text: "Größe" });
  expect(made.readies).toBeGreaterThan(before);
  const text = () => made.outbox.flush().filter(({ kind }) => kind === "delta" || kind === "snapshot");
  expect(text()).toEqual([{ kind: "delta", turn: "t-1", part: "p", offset: 0, text: "Größe" }]);
  made.driver.observe(NATIVE_END);
  await ended(made, "t-1");
  // A link that broke with them on their way.
  made.outbox.open(0);
  expect(text()).toEqual([{ kind: "snapshot", turn: "t-1", part: "p", text: "Größe" }]);
  made.outbox.open(made.journal.state.head);
  expect(text()).toEqual([]);
});

test("a number that was accepted is refused, and nothing of it is sent", async () => {
  const made = await scene();
  await running(made, submission(3));
  made.driver.observe(NATIVE_END);
  await ended(made, "t-3");
  for (const number of [3, 2, 1]) {
    expect(await codeOf(made.members.submit(submission(number, { turn: `again-${number}` })))).toBe(
      "TURN_NUMBER_USED",
    );
  }
  expect(made.driver.residents.flatMap(({ prompts }) => prompts)).toHaveLength(1);
});

test("the same turn submitted twice at once reaches the CLI once", async () => {
  const made = await scene();
  const results = await Promise.all([
    codeOf(made.members.submit(submission(1))),
    codeOf(made.members.submit(submission(1))),
  ]);
  expect(results).toEqual(["none", "MEMBER_BUSY"]);
  await until("the prompt is out", () => made.driver.residents[0]?.calls.includes("submit"));
  made.driver.observe(OWN_EVENT);
  made.driver.observe(NATIVE_END);
  await ended(made, "t-1");
  expect(await codeOf(made.members.submit(submission(1)))).toBe("TURN_NUMBER_USED");
  expect(made.driver.residents.flatMap(({ prompts }) => prompts)).toHaveLength(1);
});

test("accepted numbers are refused by a next life too, long after they were acknowledged", async () => {
  const first = await scene();
  await running(first, submission(5));
  first.driver.observe(NATIVE_END);
  await ended(first, "t-5");
  await settled();
  first.journal.acknowledge(first.journal.state.head);
  await first.journal.close();
  const second = await scene({ journalPath: first.journalPath });
  expect(second.journal.state.unacked).toEqual([]);
  expect(await codeOf(second.members.submit(submission(5)))).toBe("TURN_NUMBER_USED");
  expect(await codeOf(second.members.submit(submission(4, { turn: "another" })))).toBe("TURN_NUMBER_USED");
  expect(await codeOf(second.members.submit(submission(6)))).toBe("none");
});

test("a member with an active turn takes no other; another member does", async () => {
  const made = await scene();
  await running(made, submission(1));
  expect(await codeOf(made.members.submit(submission(2)))).toBe("MEMBER_BUSY");
  expect(await codeOf(made.members.submit(submission(2, { member: "m-2" })))).toBe("none");
});

test("a turn that is declared never received can't be submitted any more, in this life or a later one", async () => {
  const first = await scene();
  expect(await first.members.recover({ turn: "t-1", member: "m-1", number: 1, launch: LAUNCH })).toBe(
    "never_received",
  );
  expect(readFileSync(first.journalPath, "utf8")).toContain('"type":"turn.vetoed"');
  expect(await codeOf(first.members.submit(submission(1)))).toBe("TURN_VETOED");
  expect(await first.members.recover({ turn: "t-1", member: "m-1", number: 1, launch: LAUNCH })).toBe(
    "never_received",
  );
  await first.journal.close();
  const second = await scene({ journalPath: first.journalPath });
  expect(await codeOf(second.members.submit(submission(1)))).toBe("TURN_VETOED");
});

test("a submission that arrives while its veto is written is refused", async () => {
  const made = await scene();
  const recovering = made.members.recover({ turn: "t-1", member: "m-1", number: 1, launch: LAUNCH });
  expect(await codeOf(made.members.submit(submission(1)))).toBe("TURN_VETOED");
  expect(await recovering).toBe("never_received");
  expect(events(made.journal, "t-1").map(({ type }) => type)).toEqual(["turn.vetoed"]);
});

test("a question about a turn whose acceptance is being written finds it active", async () => {
  const made = await scene();
  const submitting = made.members.submit(submission(1));
  expect(await made.members.recover({ turn: "t-1", member: "m-1", number: 1, launch: LAUNCH })).toBe(
    "active",
  );
  await submitting;
});

test("a recovery question tells active, ended and forgotten apart", async () => {
  const made = await scene();
  await running(made, submission(2));
  expect(await made.members.recover({ turn: "t-2", member: "m-1", number: 2, launch: LAUNCH })).toBe(
    "active",
  );
  made.driver.observe(NATIVE_END);
  await ended(made, "t-2");
  expect(await made.members.recover({ turn: "t-2", member: "m-1", number: 2, launch: LAUNCH })).toBe("ended");
  // Its number was accepted, its end is no longer remembered: nobody may say that it was never received.
  expect(await made.members.recover({ turn: "t-old", member: "m-1", number: 1, launch: LAUNCH })).toBe(
    "forgotten",
  );
  expect(events(made.journal, "t-old")).toEqual([]);
});

test("a turn that an earlier life left under submission keeps its member busy until the CLI's history was asked", async () => {
  for (const [history, outcome] of [
    ["absent", "not_sent"],
    ["present", "unknown"],
  ] as const) {
    const first = await scene();
    await first.journal.append({ type: "turn.accepted", member: "m-1", turn: "t-1", number: 1 });
    await first.journal.append({ ...EVENTS["turn.context"], turn: "t-1", nativeId: "ses_1" });
    await first.journal.append({ ...EVENTS["turn.submitting"], turn: "t-1" });
    await first.journal.close();
    const next = await scene({ journalPath: first.journalPath });
    next.driver.onProve = async () => history;
    expect((await next.members.status()).openTurns).toEqual([{ turn: "t-1", member: "m-1", number: 1 }]);
    expect(await codeOf(next.members.submit(submission(2)))).toBe("MEMBER_BUSY");
    const question = { turn: "t-1", member: "m-1", number: 1, launch: LAUNCH };
    expect(await next.members.recover(question)).toBe("active");
    const end = await until("its end", () => endOf(next.journal, "t-1"));
    expect(end.settlement).toMatchObject({ outcome });
    expect(await next.members.recover(question)).toBe("ended");
    expect(await codeOf(next.members.submit(submission(2)))).toBe("none");
  }
});

test("one that nobody asks about is ended by an abort, without a question", async () => {
  const first = await scene();
  await first.journal.append({ type: "turn.accepted", member: "m-1", turn: "t-1", number: 1 });
  await first.journal.append({ ...EVENTS["turn.submitting"], turn: "t-1" });
  await first.journal.close();
  const next = await scene({ journalPath: first.journalPath });
  next.members.abort("t-1");
  const end = await until("its end", () => endOf(next.journal, "t-1"));
  expect(end.settlement).toMatchObject({ outcome: "unknown" });
  expect(next.driver.launches).toEqual([]);
});

test("when the acceptance can't be stored nothing starts and the member is free", async () => {
  const made = await scene();
  await made.journal.close();
  expect(await codeOf(made.members.submit(submission(1)))).toBe("STOPPED");
  expect(made.members.isActive("t-1")).toBe(false);
  expect(made.driver.launches).toEqual([]);
});

test("when a veto can't be stored nobody is told that the turn was never received", async () => {
  const made = await scene();
  await made.journal.close();
  expect(await codeOf(made.members.recover({ turn: "t-1", member: "m-1", number: 1, launch: LAUNCH }))).toBe(
    "STOPPED",
  );
});

test("an empty message, one beyond the limit in bytes, a command are refused before anything is stored", async () => {
  const made = await scene();
  expect(await codeOf(made.members.submit(submission(1, { text: "" })))).toBe("MESSAGE_EMPTY");
  const wide = "ß".repeat(LIMITS.userTextBytes / 2 + 1);
  expect(await codeOf(made.members.submit(submission(1, { text: wide })))).toBe("MESSAGE_TOO_LARGE");
  const command = submission(1, { text: "/cost now", launch: { ...LAUNCH, cli: "claude" } });
  expect(await codeOf(made.members.submit(command))).toBe("MESSAGE_IS_COMMAND");
  expect(made.journal.state.head).toBe(0);
});

test("a CLI without a driver, and a member of another CLI, are refused", async () => {
  const made = await scene();
  const launch = { ...LAUNCH, cli: "codex" as const };
  expect(await codeOf(made.members.submit(submission(1, { launch })))).toBe("CLI_UNKNOWN");
  await made.members.submit(submission(1));
  expect(await codeOf(made.members.submit(submission(2, { launch })))).toBe("REQUEST_INVALID");
});

test("the end of an active turn can be asked for; that of an unknown one can't", async () => {
  const made = await scene();
  expect(await codeOf(() => made.members.abort("t-1"))).toBe("ABORT_NO_TURN");
  await running(made, submission(1));
  made.members.abort("t-1");
  await settled();
  made.driver.observe(NATIVE_END);
  expect(await ended(made, "t-1")).toMatchObject({ outcome: "aborted", settled: true });
  expect(await codeOf(() => made.members.abort("t-1"))).toBe("ABORT_NO_TURN");
});

test("an abort that overtakes the acceptance ends the turn, and the submission is still answered well", async () => {
  const made = await scene();
  const submitting = codeOf(made.members.submit(submission(1)));
  made.members.abort("t-1");
  expect(await submitting).toBe("none");
  expect(await ended(made, "t-1")).toMatchObject({ outcome: "not_sent" });
  expect(made.driver.launches).toEqual([]);
});

test("a resident process that ends while the next turn's acceptance is written hurts nobody", async () => {
  const made = await scene();
  await running(made, submission(1));
  made.driver.observe(NATIVE_END);
  await ended(made, "t-1");
  const submitting = made.members.submit(submission(2));
  made.driver.exit(0);
  await submitting;
  await until("the second process", () => made.driver.residents.length === 2);
  expect(made.broken).toEqual([]);
});

test("the status names resident processes and active turns", async () => {
  const made = await scene();
  expect(await made.members.status()).toEqual({ members: [], openTurns: [], numbers: [] });
  await running(made, submission(1));
  expect(await made.members.status()).toEqual({
    members: [
      {
        member: "m-1",
        cli: "opencode",
        processGeneration: 1,
        subscription: 1,
        activeTurn: "t-1",
        nativeId: "ses_1",
        tookLastTurn: false,
        launchDigest: LAUNCH.digest,
        launchParts: LAUNCH_PARTS,
        // The stand-in driver starts no process.
        rssBytes: 0,
      },
    ],
    openTurns: [{ turn: "t-1", member: "m-1", number: 1 }],
    numbers: [{ member: "m-1", number: 1 }],
  });
});

test("a member is retired when it is idle, and refused while it is not", async () => {
  const made = await scene();
  expect(await made.members.retire("m-1")).toBe(false);
  await running(made, submission(1));
  expect(await codeOf(made.members.retire("m-1"))).toBe("MEMBER_BUSY");
  made.driver.observe(NATIVE_END);
  await ended(made, "t-1");
  expect(await made.members.retire("m-1")).toBe(true);
  // The number is remembered beyond the turn and the process.
  expect(await made.members.status()).toEqual({
    members: [],
    openTurns: [],
    numbers: [{ member: "m-1", number: 1 }],
  });
});

test("a stop ends the turns and the processes, and takes nothing new", async () => {
  const made = await scene();
  await running(made, submission(1));
  const [resident] = made.driver.residents;
  const stopping = made.members.stop();
  expect(await codeOf(made.members.submit(submission(2, { member: "m-2" })))).toBe("STOPPED");
  await settled();
  made.driver.observe(NATIVE_END);
  await stopping;
  expect(endOf(made.journal, "t-1")).toMatchObject({ settlement: { outcome: "aborted", settled: true } });
  expect(resident?.calls.at(-1)).toBe("stop");
});

test("a stop waits for a process that is just being started, and ends it", async () => {
  const made = await scene();
  const launched = Promise.withResolvers<void>();
  const answer = made.driver.onLaunch;
  made.driver.onLaunch = async (request, locator) => {
    await launched.promise;
    return answer(request, locator);
  };
  await made.members.submit(submission(1));
  await until("the launch", () => made.driver.launches.length === 1);
  let isStopped = false;
  const stopping = made.members.stop().then(() => {
    isStopped = true;
  });
  await ended(made, "t-1");
  expect(isStopped).toBe(false);
  launched.resolve();
  await stopping;
  expect(made.driver.residents[0]?.calls).toEqual(["stop"]);
});

test("a stop whose process can't be ended is an error, after all others were ended", async () => {
  const made = await scene();
  for (const [number, member] of [
    [1, "m-1"],
    [2, "m-2"],
  ] as const) {
    await running(made, submission(number, { member }));
    made.driver.observe(NATIVE_END);
    await ended(made, `t-${number}`);
  }
  const [first, second] = made.driver.residents;
  if (first === undefined || second === undefined) throw new Error("two residents");
  first.answers.stop = async () => [{ pid: 7, parent: 1, startTicks: "1", state: "D", command: "stuck" }];
  expect(await codeOf(made.members.stop())).toBe("PROCESS_LEFT");
  expect(second.calls.at(-1)).toBe("stop");
});

test("with too many events unacknowledged new turns are refused and running ones are ended", async () => {
  const made = await scene({ unackedEvents: 20 });
  await running(made, submission(1));
  for (let n = 0; n < 30; n += 1)
    made.driver.observe({ kind: "waiting", reason: "rate", attempt: n, nextAt: null });
  await until("the abort", () => made.driver.residents[0]?.calls.includes("abort"));
  made.driver.observe(NATIVE_END);
  expect(await ended(made, "t-1")).toMatchObject({ outcome: "aborted" });
  expect(await codeOf(made.members.submit(submission(2)))).toBe("OVERLOADED");
  made.journal.acknowledge(made.journal.state.head);
  await until("the acknowledgement", () => made.journal.state.unacked.length === 0);
  expect(await codeOf(made.members.submit(submission(2)))).toBe("none");
});
