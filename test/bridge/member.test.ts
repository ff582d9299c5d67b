import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { PLACEHOLDER_KEY } from "../../bridge/drivers/environment.ts";
import { createMember, type Member } from "../../bridge/member.ts";
import type { Preparation, Submission } from "../../bridge/turn-runner.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import type { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { type FakeDriver, fakeDriver, fakeResident, OWN_EVENT } from "../support/fake-driver.ts";
import { keptLog } from "../support/kept-log.ts";
import {
  CONTAINER,
  DIGEST_A,
  DIGEST_B,
  EVIDENCE,
  LAUNCH,
  LAUNCH_PARTS,
  LOCATOR,
  PARAMS,
  SETTLEMENT,
} from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const NEW_SUBMISSION: Submission = { ...PARAMS["turn.submit"], settledTurns: 0, locator: null };
const NEXT_SUBMISSION: Submission = { ...PARAMS["turn.submit"], settledTurns: 2, locator: LOCATOR };
const STUCK = { pid: 77, parent: 1, startTicks: "1", state: "D", command: "stuck" };

interface Scene {
  member: Member;
  driver: FakeDriver;
  events: ControlEvent[];
  log: ReturnType<typeof keptLog>;
  prepare(submission: Submission, signal?: AbortSignal): Promise<Preparation>;
  processStates(): string[];
}

function scene(): Scene {
  const directory = temporaryDirectory();
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
  const driver = fakeDriver();
  const events: ControlEvent[] = [];
  const log = keptLog();
  const member = createMember({
    id: "m-1",
    driver,
    command: ["/never/launched"],
    cliVersion: "1.14.50",
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
      clis: [],
      limits: DEFAULT_LIMITS,
    },
    modelUrl: "http://127.0.0.1:1",
    modelToken: (generation) => `token-${generation}`,
    clock: new FakeClock(),
    log,
    report: (event) => events.push(event),
  });
  return {
    member,
    driver,
    events,
    log,
    prepare: (submission, signal = new AbortController().signal) => member.prepare(submission, signal),
    processStates: () =>
      events.flatMap((event) =>
        event.type === "member.process" ? [`${event.state} ${event.processGeneration}`] : [],
      ),
  };
}

/** A member whose resident process has taken a turn that settled. */
async function retained(): Promise<Scene> {
  const made = scene();
  await made.prepare(NEW_SUBMISSION);
  made.member.turnEnded(SETTLEMENT);
  // The locator names the session of that process.
  return made;
}

async function refusal(work: Promise<Preparation>): Promise<unknown> {
  const preparation = await work;
  if (preparation.kind !== "refused") return preparation.kind;
  return { status: preparation.status, code: preparation.error.code };
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "none",
    (error: HoldfastError) => error.code,
  );
}

test("the first turn is NEW: a process without a locator, reported as it starts", async () => {
  const { prepare, driver, processStates, member } = scene();
  const preparation = await prepare(NEW_SUBMISSION);
  expect(preparation).toMatchObject({ kind: "ready", status: "NEW" });
  expect(driver.launches.map(({ locator }) => locator)).toEqual([null]);
  expect(driver.launches[0]?.request).toMatchObject({
    cliVersion: "1.14.50",
    command: ["/never/launched"],
    processGeneration: 1,
    launch: LAUNCH,
  });
  expect(processStates()).toEqual(["started 1", "ready 1"]);
  expect(member.resident()?.nativeId).toBe("ses_1");
});

test("while no turn has settled each one starts anew, without a locator and beside no earlier process", async () => {
  const { prepare, driver, member } = scene();
  await prepare(NEW_SUBMISSION);
  member.turnEnded({ ...SETTLEMENT, settled: false, outcome: "not_sent", keepsProcess: true });
  const preparation = await prepare({ ...NEW_SUBMISSION, locator: LOCATOR });
  expect(preparation).toMatchObject({ kind: "ready", status: "NEW" });
  expect(driver.launches.map(({ locator }) => locator)).toEqual([null, null]);
  expect(driver.residents[0]?.calls).toEqual(["stop"]);
});

test("the process that took the last turn takes the next one: LIVE, and nothing is started", async () => {
  const { prepare, driver } = await retained();
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ kind: "ready", status: "LIVE" });
  expect(driver.launches).toHaveLength(1);
});

test("a doubt of the host replaces the process that took the last turn, and says so", async () => {
  const { prepare, driver, processStates } = await retained();
  const doubted = { ...NEXT_SUBMISSION, mustProve: "turn t-0 is unknown" };
  expect(await prepare(doubted)).toMatchObject({
    kind: "ready",
    status: "RESTORED",
    reason: "turn t-0 is unknown",
  });
  expect(driver.launches.map(({ locator }) => locator)).toEqual([null, LOCATOR]);
  expect(processStates()).toEqual(["started 1", "ready 1", "retired 1", "started 2", "ready 2"]);
});

test("what of its process decides the next context is told, and nothing when none is there", async () => {
  const { prepare, member, driver } = scene();
  expect(member.standing()).toBeNull();
  await prepare(NEW_SUBMISSION);
  const standing = { launchDigest: LAUNCH.digest, launchParts: LAUNCH_PARTS, nativeId: "ses_1" };
  expect(member.standing()).toEqual({ ...standing, tookLastTurn: false });
  member.turnEnded(SETTLEMENT);
  expect(member.standing()).toEqual({ ...standing, tookLastTurn: true });
  const [resident] = driver.residents;
  if (resident !== undefined) resident.isGone = true;
  expect(member.standing()).toBeNull();
});

test("a turn that did not settle leaves no LIVE process", async () => {
  const { prepare, member } = scene();
  await prepare(NEXT_SUBMISSION);
  member.turnEnded({ ...SETTLEMENT, settled: false, keepsProcess: true });
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ kind: "ready", status: "RESTORED" });
});

test("without a process the saved locator is resumed: RESTORED", async () => {
  const { prepare, driver } = scene();
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ kind: "ready", status: "RESTORED" });
  expect(driver.launches.map(({ locator }) => locator)).toEqual([LOCATOR]);
});

test("another launch digest retires the process first, then resumes", async () => {
  const { prepare, driver, processStates } = await retained();
  const launchParts = { ...LAUNCH_PARTS, model: DIGEST_B, policy: DIGEST_B };
  const changed = { ...NEXT_SUBMISSION, launch: { ...LAUNCH, digest: DIGEST_A }, launchParts };
  const stopping = Promise.withResolvers<never[]>();
  const [old] = driver.residents;
  if (old === undefined) throw new Error("no resident");
  old.answers.stop = () => stopping.promise;
  const preparing = prepare(changed);
  await settled();
  expect(driver.launches).toHaveLength(1);
  stopping.resolve([]);
  expect(await preparing).toMatchObject({
    kind: "ready",
    status: "RESTORED",
    reason: "the model and the permission policy changed",
  });
  expect(processStates()).toEqual(["started 1", "ready 1", "retired 1", "started 2", "ready 2"]);
});

test("a retained member without a locator is LOST, even with its process alive; nothing is started", async () => {
  const { prepare, driver } = await retained();
  expect(await refusal(prepare({ ...NEXT_SUBMISSION, locator: null }))).toEqual({
    status: "LOST",
    code: "CONTEXT_LOST",
  });
  expect(driver.launches).toHaveLength(1);
});

test("another container is LOST and starts nothing", async () => {
  const { prepare, driver } = scene();
  const container = { ...CONTAINER, containerId: "another" };
  expect(await refusal(prepare({ ...NEXT_SUBMISSION, container }))).toMatchObject({ status: "LOST" });
  expect(driver.launches).toEqual([]);
});

test("a history that lacks the last settled turn is LOST", async () => {
  const { prepare, driver, member } = scene();
  driver.onLaunch = async () => ({
    kind: "not_resumed",
    resume: { kind: "lost", reason: "the tail is missing" },
  });
  expect(await refusal(prepare(NEXT_SUBMISSION))).toEqual({ status: "LOST", code: "CONTEXT_LOST" });
  expect(member.resident()).toBeNull();
});

test("a passing fault while resuming is an error of its own, with no status, and a later try can succeed", async () => {
  const { prepare, driver } = scene();
  const answer = driver.onLaunch;
  driver.onLaunch = async () => ({
    kind: "not_resumed",
    resume: { kind: "error", reason: "no answer in 5000 ms" },
  });
  expect(await refusal(prepare(NEXT_SUBMISSION))).toEqual({ status: null, code: "RESUME_FAILED" });
  driver.onLaunch = answer;
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ kind: "ready", status: "RESTORED" });
});

test("an id that was not verified at its settlement is verified before the next turn", async () => {
  const { prepare, driver } = await retained();
  expect(await prepare({ ...NEXT_SUBMISSION, locatorIsPending: true })).toMatchObject({ status: "LIVE" });
  expect(driver.residents[0]?.calls).toEqual(["verify"]);
});

test("as long as it can't be verified nothing is sent; a changed one is refused", async () => {
  const { prepare, driver } = await retained();
  const [resident] = driver.residents;
  if (resident === undefined) throw new Error("no resident");
  const pending = { ...NEXT_SUBMISSION, locatorIsPending: true };
  resident.answers.verify = async () => ({ kind: "unavailable", detail: "ECONNRESET" });
  expect(await codeOf(prepare(pending))).toBe("IDENTITY_UNVERIFIED");
  resident.answers.verify = async () => ({ kind: "changed", observed: "ses_2", evidence: EVIDENCE });
  expect(await codeOf(prepare(pending))).toBe("IDENTITY_CHANGED");
  resident.answers.verify = async () => ({ kind: "verified", nativeId: "ses_1", evidence: EVIDENCE });
  expect(await prepare(pending)).toMatchObject({ kind: "ready", status: "LIVE" });
});

test("a process that ends between turns is reported, its slot emptied, and the next turn resumes", async () => {
  const { prepare, driver, member, processStates } = await retained();
  driver.exit(9);
  expect(member.resident()).toBeNull();
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ kind: "ready", status: "RESTORED" });
  expect(driver.residents[0]?.calls).toEqual(["stop"]);
  expect(processStates()).toEqual(["started 1", "ready 1", "exited 1", "started 2", "ready 2"]);
});

// That a launch starts nothing beside what it can't end, and names it: test/container/reaping.test.ts.
test("children that could not be ended are told, and left to the next launch", async () => {
  const { prepare, driver, log } = await retained();
  const [resident] = driver.residents;
  if (resident === undefined) throw new Error("no resident");
  resident.answers.stop = async () => [STUCK];
  driver.exit(9);
  expect(await prepare(NEXT_SUBMISSION)).toMatchObject({ status: "RESTORED" });
  expect(driver.launches).toHaveLength(2);
  expect(log.lines.map(({ what }) => what)).toContain("slot not empty");
});

test("a turn that leaves its process unusable retires it; a failed retirement changes no settlement", async () => {
  const { prepare, driver, member, log } = scene();
  await prepare(NEW_SUBMISSION);
  const [resident] = driver.residents;
  if (resident === undefined) throw new Error("no resident");
  resident.answers.stop = async () => [STUCK];
  member.turnEnded({ ...SETTLEMENT, keepsProcess: false });
  expect(member.resident()).toBeNull();
  await settled();
  expect(log.lines.map(({ what }) => what)).toContain("retirement not confirmed");
});

test("a turn that is submitted at once after an unusable one never meets the old process", async () => {
  const { prepare, driver, member } = scene();
  await prepare(NEW_SUBMISSION);
  const [old] = driver.residents;
  const stopping = Promise.withResolvers<never[]>();
  if (old === undefined) throw new Error("no resident");
  old.answers.stop = () => stopping.promise;
  member.turnEnded({ ...SETTLEMENT, keepsProcess: false });
  const preparing = prepare(NEXT_SUBMISSION);
  await settled();
  expect(driver.launches).toHaveLength(1);
  stopping.resolve([]);
  expect(await preparing).toMatchObject({ status: "RESTORED" });
});

test("a retirement says whether there was a process, and asked twice at once ends it once", async () => {
  const { member, driver, processStates } = await retained();
  expect(await Promise.all([member.retire("a"), member.retire("b")])).toEqual([true, true]);
  expect(await member.retire("c")).toBe(false);
  expect(driver.residents[0]?.calls).toEqual(["stop"]);
  expect(processStates().filter((state) => state.startsWith("retired"))).toEqual(["retired 1"]);
});

test("a retirement that leaves processes is an error that names them", async () => {
  const { member, driver } = await retained();
  const [resident] = driver.residents;
  if (resident === undefined) throw new Error("no resident");
  resident.answers.stop = async () => [STUCK];
  await expect(member.retire("asked")).rejects.toMatchObject({
    code: "PROCESS_LEFT",
    message: expect.stringContaining("77 (stuck)"),
  });
});

test("a process that was started for a turn that has ended meanwhile is ended again", async () => {
  const { prepare, driver, member } = scene();
  const launched = Promise.withResolvers<void>();
  const resident = fakeResident();
  driver.onLaunch = async () => {
    await launched.promise;
    return { kind: "new", resident };
  };
  const cancel = new AbortController();
  const preparing = codeOf(prepare(NEW_SUBMISSION, cancel.signal));
  await settled();
  cancel.abort();
  launched.resolve();
  expect(await preparing).toBe("STOPPED");
  expect(resident.calls).toEqual(["stop"]);
  expect(member.resident()).toBeNull();
});

/** A launch that was cancelled and takes its time to end. */
async function cancelledLaunch(made: Scene): Promise<{ end: () => void; preparing: Promise<string> }> {
  const ended = Promise.withResolvers<never>();
  const answer = made.driver.onLaunch;
  made.driver.onLaunch = () => {
    made.driver.onLaunch = answer;
    return ended.promise;
  };
  const cancel = new AbortController();
  const preparing = codeOf(made.prepare(NEW_SUBMISSION, cancel.signal));
  while (made.driver.launches.length === 0) await settled();
  cancel.abort();
  return { end: () => ended.reject(Object.assign(new Error("cancelled"), { code: "STOPPED" })), preparing };
}

test("a launch waits for one that was cancelled: the end of that one empties the slot", async () => {
  const made = scene();
  const { end, preparing } = await cancelledLaunch(made);
  const next = made.prepare(NEW_SUBMISSION);
  await settled();
  expect(made.driver.launches).toHaveLength(1);
  end();
  expect(await preparing).toBe("STOPPED");
  expect(await next).toMatchObject({ kind: "ready", status: "NEW" });
  expect(made.driver.launches).toHaveLength(2);
});

test("a retirement waits for a launch that was cancelled: no process may be left when it is over", async () => {
  const made = scene();
  const { end, preparing } = await cancelledLaunch(made);
  let isOver = false;
  const retiring = made.member.retire("the sandbox stops").then((was) => {
    isOver = true;
    return was;
  });
  await settled();
  expect(isOver).toBe(false);
  end();
  expect(await retiring).toBe(false);
  await preparing;
});

test("a launch that fails leaves nothing that stands in the way of the next", async () => {
  const { prepare, driver } = scene();
  const answer = driver.onLaunch;
  driver.onLaunch = () =>
    Promise.reject(Object.assign(new Error("no ready line"), { code: "CLI_NOT_READY" }));
  expect(await codeOf(prepare(NEW_SUBMISSION))).toBe("CLI_NOT_READY");
  driver.onLaunch = answer;
  expect(await prepare(NEW_SUBMISSION)).toMatchObject({ kind: "ready" });
});

test("reports of a process that was replaced reach nobody", async () => {
  const { prepare, driver, member } = await retained();
  await prepare({ ...NEXT_SUBMISSION, launch: { ...LAUNCH, digest: DIGEST_A } });
  const seen: string[] = [];
  member.active = {
    observe: (observation: { kind: string }) => seen.push(observation.kind),
    processExited: () => seen.push("exit"),
  } as unknown as Member["active"];
  driver.launches[0]?.request.listener.onObservation(OWN_EVENT);
  driver.launches[0]?.request.listener.onExit({ code: 0, signal: null, stderrTail: "" });
  expect(seen).toEqual([]);
  expect(member.resident()).not.toBeNull();
  driver.launches[1]?.request.listener.onObservation(OWN_EVENT);
  expect(seen).toEqual(["own_event"]);
});

test("the active turn hears of its process's end, and what the process leaves is ended", async () => {
  const { driver, member } = await retained();
  const exits: unknown[] = [];
  member.active = { processExited: (exit: unknown) => exits.push(exit) } as unknown as Member["active"];
  driver.exit(3);
  expect(exits).toEqual([{ code: 3, signal: null, stderrTail: "" }]);
  await settled();
  expect(driver.residents[0]?.calls).toEqual(["stop"]);
});

test("a delivery is proven in a process of its own, after the dead one's slot was emptied", async () => {
  const { driver, member } = await retained();
  const stopping = Promise.withResolvers<never[]>();
  const [resident] = driver.residents;
  if (resident === undefined) throw new Error("no resident");
  resident.answers.stop = () => stopping.promise;
  driver.onProve = async () => "absent";
  driver.exit(9);
  const proving = member.proveDelivery(LAUNCH, "ses_1", "msg_1");
  await settled();
  expect(driver.launches).toHaveLength(1);
  stopping.resolve([]);
  expect(await proving).toBe("absent");
  expect(driver.launches[1]?.request.processGeneration).toBe(2);
  // It only looks: with a turn's process alone comes a token of the model's.
  expect(driver.launches.map(({ request }) => request.modelKey)).toEqual(["token-1", PLACEHOLDER_KEY]);
});

test("subscriptions are numbered over all processes of the member", async () => {
  const { prepare, driver } = await retained();
  await prepare({ ...NEXT_SUBMISSION, launch: { ...LAUNCH, digest: DIGEST_A } });
  const numbers = driver.launches.map(({ request }) => request.nextSubscription());
  expect(numbers).toEqual([1, 2]);
});

test("while somebody reads the slot no turn is prepared; afterwards the same process goes on", async () => {
  const { member, prepare } = await retained();
  const gate = Promise.withResolvers<string>();
  const reading = member.atRest(async (slot) => `${slot.member} ${await gate.promise}`);
  let isPrepared = false;
  const turn = prepare(NEXT_SUBMISSION).finally(() => {
    isPrepared = true;
  });
  for (let step = 0; step < 20; step += 1) await settled();
  expect(isPrepared).toBe(false);
  gate.resolve("read");
  expect(await reading).toBe("m-1 read");
  expect((await turn).kind).toBe("ready");
});

test("a member with an active turn is not at rest; a reader that fails keeps nobody out", async () => {
  const { member, prepare } = await retained();
  member.active = {} as never;
  expect(await codeOf(member.atRest(async () => undefined))).toBe("MEMBER_BUSY");
  member.active = null;
  await expect(member.atRest(() => Promise.reject(new Error("disk")))).rejects.toThrow("disk");
  expect((await prepare(NEXT_SUBMISSION)).kind).toBe("ready");
});

test("a fork is the driver's, in this slot, from a process of its own; one without a session leaves it to the turn", async () => {
  const { member, driver, prepare } = scene();
  const { signal } = new AbortController();
  expect(await member.fork(LAUNCH, LOCATOR, signal)).toBeNull();
  const session = { nativeId: "ses_2", directory: "/workspace", tail: LOCATOR.tail };
  const forkable = driver as { fork: FakeDriver["fork"] };
  forkable.fork = async (request, locator) => {
    const { slot, modelKey } = request;
    expect({ locator, signal: request.signal, slot: slot.member, modelKey }).toEqual({
      locator: LOCATOR,
      signal,
      slot: "m-1",
      modelKey: PLACEHOLDER_KEY,
    });
    return session;
  };
  expect(await member.fork(LAUNCH, LOCATOR, signal)).toEqual(session);
  expect(member.standing()).toBeNull();
  await prepare({ ...NEXT_SUBMISSION, forks: true });
  expect(driver.launches.at(-1)).toMatchObject({ locator: LOCATOR, request: { forks: true } });
});
