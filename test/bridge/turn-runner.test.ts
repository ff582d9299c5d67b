import { expect, test } from "vitest";
import { createTurnRunner, type Preparation, type Submission } from "../../bridge/turn-runner.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { ControlEvent } from "../../protocol/events.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import {
  type FakeResident,
  fakeResident,
  NATIVE_END,
  OWN_EVENT,
  STREAM_LOST,
} from "../support/fake-driver.ts";
import { keptLog } from "../support/kept-log.ts";
import { EVENTS, EVIDENCE, PARAMS } from "../support/samples.ts";

const LIMITS = {
  ...DEFAULT_LIMITS,
  firstEventMs: 1000,
  abortMs: 3000,
  turnMs: 60_000,
};
const EXIT = { code: 1, signal: null, stderrTail: "" };

/** A turn whose world is the test's: journal, preparation, CLI and clock. */
class Stage {
  readonly clock = new FakeClock();
  readonly resident: FakeResident = fakeResident({ onCall: (name) => this.order.push(name) });
  readonly events: ControlEvent[] = [];
  readonly settlements: Settlement[] = [];
  readonly broken: HoldfastError[] = [];
  readonly proofs: string[] = [];
  /** Journal, CLI calls and settlement in the order in which they happened. */
  readonly order: string[] = [];
  /** Event types whose append waits until the test lets it go, or fails. */
  readonly held = new Map<string, PromiseWithResolvers<void>>();
  preparation: () => Promise<Preparation> = async () => ({
    kind: "ready",
    resident: this.resident,
    status: "LIVE",
    reason: "resident",
  });
  proof: () => Promise<"absent" | "present" | "unclear"> = async () => "unclear";
  witnesses: () => Promise<Evidence[]> = async () => [];
  prepareSignal: AbortSignal | null = null;
  readonly runner;

  constructor(over: Partial<Submission> = {}) {
    this.runner = createTurnRunner(
      { ...PARAMS["turn.submit"], ...over },
      {
        clock: this.clock,
        log: keptLog(),
        limits: LIMITS,
        append: async (event) => {
          ControlEvent.parse(event);
          await this.held.get(event.type)?.promise;
          this.events.push(event);
          this.order.push(event.type);
        },
        prepare: (signal) => {
          this.prepareSignal = signal;
          return this.preparation();
        },
        proveDelivery: (_nativeId, message) => {
          this.proofs.push(message);
          return this.proof();
        },
        onText: () => undefined,
        witnesses: () => this.witnesses(),
        onEnded: (settlement) => {
          this.settlements.push(settlement);
          this.order.push("onEnded");
        },
        onBroken: (error) => this.broken.push(error),
      },
    );
  }

  hold(type: ControlEvent["type"]): PromiseWithResolvers<void> {
    const gate = Promise.withResolvers<void>();
    gate.promise.catch(() => undefined /* the append reports it */);
    this.held.set(type, gate);
    return gate;
  }

  async start(): Promise<this> {
    this.runner.start();
    await settled();
    return this;
  }

  /** Up to the own event. */
  async run(): Promise<this> {
    await this.start();
    this.runner.observe(OWN_EVENT);
    await settled();
    return this;
  }

  get types(): string[] {
    return this.events.map(({ type }) => type);
  }

  settlement(): Settlement {
    expect(this.settlements).toHaveLength(1);
    expect(this.types.filter((type) => type === "turn.ended")).toHaveLength(1);
    return this.settlements[0] as Settlement;
  }

  count(call: string): number {
    return this.resident.calls.filter((name) => name === call).length;
  }

  whats(): string[] {
    return this.settlement().evidence.map(({ what }) => what);
  }
}

test("a turn goes from acceptance to its settlement, each step journaled in order", async () => {
  const stage = await new Stage().run();
  stage.runner.observe({ kind: "text", part: "p", from: 0, text: "Größe 🦑" });
  stage.runner.observe(NATIVE_END);
  await stage.runner.ended;
  expect(stage.order).toEqual([
    "gate",
    "turn.context",
    "turn.gated",
    "turn.submitting",
    "submit",
    "turn.delivered",
    "verify",
    "endTurn",
    "turn.ended",
    "onEnded",
  ]);
  expect(stage.settlement()).toMatchObject({
    outcome: "completed",
    settled: true,
    context: "LIVE",
    parts: ["Größe 🦑"],
    keepsProcess: true,
    error: null,
  });
  expect(stage.clock.pending).toBe(0);
});

test("the text reaches the CLI exactly as it was submitted, once", async () => {
  const text = " /compact\r\n\ttail 🦑 ";
  const stage = await new Stage({ text }).run();
  expect(stage.resident.prompts).toEqual([text]);
});

test("law 3, S18: nothing is submitted before the intent is durable", async () => {
  const stage = new Stage();
  const intent = stage.hold("turn.submitting");
  await stage.start();
  await stage.clock.elapse(500);
  expect(stage.count("submit")).toBe(0);
  intent.resolve();
  await settled();
  expect(stage.count("submit")).toBe(1);
  expect(stage.order.indexOf("turn.submitting")).toBeLessThan(stage.order.indexOf("submit"));
});

test("nothing is submitted when the intent could not be stored, and the bridge is told", async () => {
  const stage = new Stage();
  const intent = stage.hold("turn.submitting");
  await stage.start();
  intent.reject(new HoldfastError("STORE_ERROR"));
  await settled();
  expect(stage.count("submit")).toBe(0);
  expect(stage.broken.map(({ code }) => code)).toEqual(["STORE_ERROR"]);
});

test("a turn that was ended while its intent was written is never submitted", async () => {
  for (const end of ["abort", "stream", "exit"] as const) {
    const stage = new Stage();
    const intent = stage.hold("turn.submitting");
    await stage.start();
    if (end === "abort") stage.runner.abort();
    if (end === "stream") {
      stage.resident.liveSubscription = null;
      stage.runner.observe(STREAM_LOST);
    }
    if (end === "exit") {
      stage.resident.isGone = true;
      stage.runner.processExited(EXIT);
    }
    await stage.clock.elapse(5000);
    intent.resolve();
    await stage.clock.elapse(5000);
    expect(stage.count("submit"), end).toBe(0);
    // As if it had never been submitted: a process that is well takes the next turn.
    expect(stage.settlement(), end).toMatchObject({
      outcome: "not_sent",
      settled: false,
      textIsPartial: false,
      keepsProcess: end === "abort",
    });
  }
});

test("nothing is submitted before the gate has passed", async () => {
  const stage = new Stage();
  const gate = Promise.withResolvers<typeof EVIDENCE>();
  stage.resident.answers.gate = () => gate.promise;
  await stage.start();
  await stage.clock.elapse(10_000);
  expect(stage.resident.calls).toEqual(["gate"]);
  expect(stage.types).toEqual(["turn.context"]);
  gate.resolve(EVIDENCE);
  await settled();
  expect(stage.count("submit")).toBe(1);
});

test("a gate that fails means not_sent, and the process is not kept", async () => {
  const stage = new Stage();
  stage.resident.answers.gate = () =>
    Promise.reject(new HoldfastError("GATE_FAILED", "the canary did not come back"));
  await stage.start();
  expect(stage.count("submit")).toBe(0);
  expect(stage.settlement()).toMatchObject({
    outcome: "not_sent",
    settled: false,
    keepsProcess: false,
    error: { code: "GATE_FAILED" },
  });
});

test("a gate whose passing could not be stored lets nothing through", async () => {
  const stage = new Stage();
  const gated = stage.hold("turn.gated");
  // The intent is behind it in the same file: a journal that has failed takes nothing more.
  const intent = stage.hold("turn.submitting");
  await stage.start();
  gated.reject(new HoldfastError("STORE_ERROR"));
  intent.reject(new HoldfastError("STORE_ERROR"));
  await settled();
  expect(stage.count("submit")).toBe(0);
  expect(stage.broken.map(({ code }) => code)).toContain("STORE_ERROR");
});

test("a stream that is lost during the gate is not passed, whatever the gate says later", async () => {
  const stage = new Stage();
  const gate = Promise.withResolvers<typeof EVIDENCE>();
  stage.resident.answers.gate = () => gate.promise;
  await stage.start();
  stage.runner.observe(STREAM_LOST);
  gate.resolve(EVIDENCE);
  await settled();
  expect(stage.count("submit")).toBe(0);
  expect(stage.settlement()).toMatchObject({ outcome: "not_sent", settled: false });
});

test("a lost stream ends an active turn: one abort, and nothing revives it", async () => {
  const stage = await new Stage().run();
  stage.runner.observe(STREAM_LOST);
  await settled();
  stage.runner.observe(OWN_EVENT);
  stage.runner.observe(STREAM_LOST);
  stage.runner.abort();
  stage.resident.liveSubscription = null;
  await stage.clock.elapse(3000);
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.count("abort")).toBe(1);
  expect(stage.settlement()).toMatchObject({
    outcome: "stream_lost",
    settled: false,
    keepsProcess: false,
    error: { code: "STREAM_LOST" },
  });
});

test("a native end seen after the loss marks the turn as settled, and it stays lost", async () => {
  const stage = await new Stage().run();
  stage.runner.observe(STREAM_LOST);
  await settled();
  stage.runner.observe(NATIVE_END);
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.count("verify")).toBe(1);
  expect(stage.settlement()).toMatchObject({ outcome: "stream_lost", settled: true });
});

test("a stream that is lost while the prompt is on its way ends the turn the same way", async () => {
  const stage = new Stage();
  const answer = Promise.withResolvers<{ kind: "accepted" }>();
  stage.resident.answers.submit = () => answer.promise;
  await stage.start();
  stage.runner.observe(STREAM_LOST);
  await stage.clock.elapse(500);
  expect(stage.count("abort")).toBe(0);
  answer.resolve({ kind: "accepted" });
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.settlement()).toMatchObject({ outcome: "stream_lost", settled: false });
});

test("an abort alone settles nothing", async () => {
  const stage = await new Stage().run();
  stage.runner.abort();
  await stage.clock.elapse(3000);
  expect(stage.settlement()).toMatchObject({ outcome: "aborted", settled: false, keepsProcess: false });
});

test("an abort with its native end settles, and the process may stay", async () => {
  const stage = await new Stage().run();
  stage.runner.abort();
  await settled();
  stage.runner.observe({ ...NATIVE_END, status: "aborted" } as typeof NATIVE_END);
  await settled();
  expect(stage.settlement()).toMatchObject({
    outcome: "aborted",
    settled: true,
    keepsProcess: true,
    error: null,
  });
});

test("asking twice for the end aborts once", async () => {
  const stage = await new Stage().run();
  stage.runner.abort();
  stage.runner.abort();
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.whats().filter((what) => what === "late_abort_requested")).toHaveLength(1);
});

test("an abort waits for a prompt that is on its way, and only then goes out", async () => {
  const stage = new Stage();
  const answer = Promise.withResolvers<{ kind: "accepted" }>();
  stage.resident.answers.submit = () => answer.promise;
  await stage.start();
  stage.runner.abort();
  await stage.clock.elapse(900);
  expect(stage.resident.calls).toEqual(["gate", "submit"]);
  answer.resolve({ kind: "accepted" });
  await settled();
  expect(stage.resident.calls).toEqual(["gate", "submit", "abort"]);
});

test("an abort without effect in time ends the process", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.abort = async () => false;
  stage.runner.abort();
  await stage.clock.elapse(LIMITS.abortMs - 1);
  expect(stage.count("stop")).toBe(0);
  await stage.clock.elapse(1);
  expect(stage.count("stop")).toBe(1);
  expect(stage.settlement()).toMatchObject({ outcome: "aborted", settled: false, keepsProcess: false });
  expect(stage.whats()).toContain("process_ended");
});

test("an abort that never answers ends the process too", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.abort = () => new Promise(() => undefined);
  stage.runner.observe(STREAM_LOST);
  await stage.clock.elapse(LIMITS.abortMs);
  expect(stage.count("stop")).toBe(1);
  expect(stage.settlement().outcome).toBe("stream_lost");
});

test("processes that could not be ended are said, and the turn still ends", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.abort = async () => false;
  stage.resident.answers.stop = async () => [
    { pid: 77, parent: 1, startTicks: "1", state: "D", command: "stuck" },
  ];
  stage.runner.abort();
  await stage.clock.elapse(LIMITS.abortMs);
  const piece = stage.settlement().evidence.find(({ what }) => what === "processes_left");
  expect(piece?.detail).toBe("77");
});

test("the first own event must come in time, whatever else flows", async () => {
  const stage = await new Stage().start();
  stage.runner.observe({ kind: "text", part: "p", from: 0, text: "of another turn" });
  await stage.clock.elapse(LIMITS.firstEventMs);
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.settlement()).toMatchObject({
    outcome: "failed",
    settled: false,
    error: { code: "TURN_FIRST_EVENT_LATE" },
  });
});

test("after a freeze an own event that was waiting to be read is not late", async () => {
  const stage = await new Stage().start();
  stage.clock.freeze(30_000, () => stage.runner.observe(OWN_EVENT));
  await settled();
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.settlement()).toMatchObject({ outcome: "completed", settled: true });
});

test("after a freeze an end that was waiting to be read is seen before the process is ended", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.abort = () => new Promise(() => undefined);
  stage.runner.abort();
  await settled();
  stage.clock.freeze(30_000, () => stage.runner.observe(NATIVE_END));
  await settled();
  expect(stage.count("stop")).toBe(0);
  expect(stage.settlement()).toMatchObject({ outcome: "aborted", settled: true });
});

test("a turn's own limit ends it, and without one the bridge's does", async () => {
  for (const [limitMs, expected] of [
    [2000, 2000],
    [0, LIMITS.turnMs],
  ] as const) {
    const stage = await new Stage({ limitMs }).run();
    await stage.clock.elapse(expected - 1);
    expect(stage.count("abort")).toBe(0);
    await stage.clock.elapse(1);
    await stage.clock.elapse(3000);
    expect(stage.settlement()).toMatchObject({ outcome: "failed", error: { code: "TURN_TIME_LIMIT" } });
  }
});

test("the wall clock jumps by an hour, to and fro: the turn's limit stays what it is", async () => {
  const stage = await new Stage({ limitMs: 60_000 }).run();
  for (const jumpMs of [3_600_000, -7_200_000]) {
    stage.clock.setWallClock(jumpMs);
    await stage.clock.elapse(20_000);
    expect(stage.count("abort")).toBe(0);
  }
  await stage.clock.elapse(25_000);
  expect(stage.settlement()).toMatchObject({ error: { code: "TURN_TIME_LIMIT" } });
  const { timings } = stage.settlement() ?? {};
  expect(timings?.totalMs).toBeLessThan(70_000);
});

test("a turn whose limit passes while it is prepared is not_sent, and the preparation is cancelled", async () => {
  const stage = new Stage({ limitMs: 1000 });
  const preparing = Promise.withResolvers<Preparation>();
  stage.preparation = () => preparing.promise;
  await stage.start();
  await stage.clock.elapse(1000);
  expect(stage.prepareSignal?.aborted).toBe(true);
  expect(stage.settlement()).toMatchObject({ outcome: "not_sent", error: { code: "TURN_TIME_LIMIT" } });
  preparing.resolve({ kind: "ready", resident: stage.resident, status: "NEW", reason: "" });
  await settled();
  expect(stage.resident.calls).toEqual([]);
  expect(stage.settlements).toHaveLength(1);
});

test("an abort while the process starts means not_sent, and nothing of it goes on", async () => {
  const stage = new Stage();
  const preparing = Promise.withResolvers<Preparation>();
  stage.preparation = () => preparing.promise;
  await stage.start();
  stage.runner.abort();
  await settled();
  expect(stage.prepareSignal?.aborted).toBe(true);
  expect(stage.settlement()).toMatchObject({ outcome: "not_sent", settled: false, session: null });
});

test("an abort before the turn has begun ends it, and the begin that follows changes nothing", async () => {
  const stage = new Stage();
  stage.runner.abort();
  stage.runner.start();
  await settled();
  expect(stage.settlement()).toMatchObject({ outcome: "not_sent", settled: false });
  expect(stage.resident.calls).toEqual([]);
});

test("a process that ends before the turn has begun is no fault of the turn", async () => {
  const stage = new Stage();
  stage.runner.processExited(EXIT);
  await stage.run();
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.settlement().outcome).toBe("completed");
});

test("a refusal sends nothing and tells status and reason", async () => {
  const stage = new Stage();
  stage.preparation = async () => ({
    kind: "refused",
    status: "LOST",
    reason: "a retained member has no locator",
    error: new HoldfastError("CONTEXT_LOST", "a retained member has no locator"),
  });
  await stage.start();
  expect(stage.types).toEqual(["turn.context", "turn.ended"]);
  expect(stage.resident.calls).toEqual([]);
  expect(stage.settlement()).toMatchObject({
    outcome: "refused",
    settled: false,
    context: "LOST",
    contextReason: "a retained member has no locator",
    error: { code: "CONTEXT_LOST" },
  });
});

test("a preparation that fails for a passing reason is refused without a status: nothing is LOST", async () => {
  const stage = new Stage();
  stage.preparation = () => Promise.reject(new HoldfastError("CLI_NOT_READY", "no ready line"));
  await stage.start();
  expect(stage.types).toEqual(["turn.ended"]);
  expect(stage.settlement()).toMatchObject({
    outcome: "refused",
    context: null,
    error: { code: "CLI_NOT_READY" },
  });
});

test("a prompt that the CLI refused is not_sent, with the CLI's answer", async () => {
  const stage = new Stage();
  stage.resident.answers.submit = async () => ({ kind: "rejected", detail: "answered 400" });
  await stage.start();
  expect(stage.settlement()).toMatchObject({
    outcome: "not_sent",
    settled: false,
    error: { code: "CLI_REFUSED", message: "answered 400" },
  });
});

test("an unclear submission is unknown when the message is there, and not_sent when it is proven absent", async () => {
  for (const [fate, outcome] of [
    ["present", "unknown"],
    ["unclear", "unknown"],
    ["absent", "not_sent"],
  ] as const) {
    const stage = new Stage();
    stage.resident.answers.submit = async () => ({ kind: "unclear", detail: "ECONNRESET" });
    stage.resident.answers.holdsMessage = async () => fate;
    await stage.start();
    await stage.clock.elapse(3000);
    expect(stage.count("abort"), fate).toBe(1);
    expect(stage.settlement(), fate).toMatchObject({ outcome, settled: false });
  }
});

test("a question about an unclear submission that fails leaves it unknown", async () => {
  const stage = new Stage();
  stage.resident.answers.submit = async () => ({ kind: "unclear", detail: "ECONNRESET" });
  stage.resident.answers.holdsMessage = () => Promise.reject(new Error("ECONNREFUSED"));
  await stage.start();
  await stage.clock.elapse(3000);
  expect(stage.settlement().outcome).toBe("unknown");
});

test("an own event proves that the prompt was taken, whatever the submission's answer says later", async () => {
  const stage = new Stage();
  const answer = Promise.withResolvers<{ kind: "unclear"; detail: string }>();
  stage.resident.answers.submit = () => answer.promise;
  await stage.run();
  answer.resolve({ kind: "unclear", detail: "ECONNRESET" });
  await settled();
  expect(stage.count("abort")).toBe(0);
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.settlement().outcome).toBe("completed");
});

test("a process that dies around the submission is asked about in a new one", async () => {
  for (const [proof, outcome] of [
    ["absent", "not_sent"],
    ["present", "unknown"],
    ["unclear", "unknown"],
  ] as const) {
    const stage = new Stage();
    stage.proof = async () => proof;
    await stage.start();
    stage.resident.isGone = true;
    stage.runner.processExited(EXIT);
    await settled();
    expect(stage.proofs, proof).toEqual(["msg_own1"]);
    expect(stage.settlement(), proof).toMatchObject({ outcome, settled: false, keepsProcess: false });
  }
});

test("a process that dies during the turn fails it, and its exit is told", async () => {
  const stage = await new Stage().run();
  stage.resident.isGone = true;
  stage.runner.processExited(EXIT);
  await settled();
  expect(stage.settlement()).toMatchObject({
    outcome: "failed",
    settled: false,
    error: { code: "CLI_EXITED", message: expect.stringContaining("code 1") },
  });
});

test("an earlier process that ends while the turn is prepared is not told as the turn's own", async () => {
  const stage = new Stage();
  const preparing = Promise.withResolvers<Preparation>();
  stage.preparation = () => preparing.promise;
  await stage.start();
  stage.runner.processExited({ code: 99, signal: null, stderrTail: "" });
  preparing.resolve({ kind: "ready", resident: stage.resident, status: "NEW", reason: "" });
  await settled();
  stage.runner.observe(OWN_EVENT);
  stage.runner.processExited(EXIT);
  await settled();
  expect(stage.settlement().error?.message).toContain("code 1");
});

test("law 7, B1: the identity is asked for again after passing failures", async () => {
  const stage = await new Stage().run();
  let tries = 0;
  stage.resident.answers.verify = async () => {
    tries += 1;
    if (tries < 3) return { kind: "unavailable", detail: "ECONNRESET" };
    return { kind: "verified", nativeId: "ses_1", evidence: EVIDENCE };
  };
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(tries).toBe(1);
  await stage.clock.elapse(1000);
  expect(tries).toBe(3);
  expect(stage.settlement()).toMatchObject({
    outcome: "completed",
    session: { isVerified: true },
    error: null,
  });
});

test("an identity that can't be verified now is said, and settles all the same", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.verify = async () => ({ kind: "unavailable", detail: "ECONNRESET" });
  stage.runner.observe(NATIVE_END);
  await stage.clock.elapse(5000);
  expect(stage.count("verify")).toBe(3);
  expect(stage.settlement()).toMatchObject({
    outcome: "completed",
    settled: true,
    session: { isVerified: false },
    error: { code: "IDENTITY_UNVERIFIED" },
  });
});

test("F2: a changed identity fails the turn, at once, and the process is not kept", async () => {
  const stage = await new Stage().run();
  stage.resident.answers.verify = async () => ({
    kind: "changed",
    observed: "ses_other",
    evidence: EVIDENCE,
  });
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.count("verify")).toBe(1);
  expect(stage.settlement()).toMatchObject({
    outcome: "failed",
    keepsProcess: false,
    session: { nativeId: "ses_1", isVerified: false },
    error: { code: "IDENTITY_CHANGED", message: expect.stringContaining("ses_other") },
  });
});

test("law 7, B1: a failed native turn is verified like any other", async () => {
  const stage = await new Stage().run();
  stage.runner.observe({
    ...NATIVE_END,
    status: "failed",
    error: { name: "APIError", message: "overloaded" },
  } as typeof NATIVE_END);
  await settled();
  expect(stage.count("verify")).toBe(1);
  expect(stage.settlement()).toMatchObject({
    outcome: "failed",
    settled: true,
    keepsProcess: true,
    error: { code: "NATIVE_FAILED", message: "APIError: overloaded" },
  });
});

test("a process without a live stream is not kept, even after a good end", async () => {
  const stage = await new Stage().run();
  stage.runner.observe(NATIVE_END);
  stage.resident.liveSubscription = null;
  await settled();
  expect(stage.settlement()).toMatchObject({ outcome: "completed", keepsProcess: false });
});

test("an overdue end is an abort and a failure with the CLI's own error", async () => {
  const stage = await new Stage().run();
  stage.runner.observe({ kind: "end_overdue", error: { name: "E", message: "half" }, evidence: EVIDENCE });
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.settlement()).toMatchObject({
    outcome: "failed",
    settled: false,
    error: { code: "NATIVE_FAILED", message: "E: half" },
  });
});

test("an unresolved permission aborts the turn with its own code", async () => {
  const stage = await new Stage().run();
  stage.runner.observe({
    kind: "permission_unresolved",
    code: "PERMISSION_UNRESOLVED",
    detail: "still pending",
    evidence: EVIDENCE,
  });
  await stage.clock.elapse(3000);
  expect(stage.count("abort")).toBe(1);
  expect(stage.settlement()).toMatchObject({ outcome: "failed", error: { code: "PERMISSION_UNRESOLVED" } });
});

test("tools, waits and permissions are journaled as they come, and fit their schemas", async () => {
  const stage = await new Stage().run();
  const long = "x".repeat(5000);
  stage.runner.observe({ kind: "tool", session: "s", call: "c", tool: long, status: "running", title: long });
  stage.runner.observe({ kind: "waiting", reason: long, attempt: 1, nextAt: null });
  const { type: _, member: _m, turn: _t, ...asked } = EVENTS["turn.permission_asked"];
  stage.runner.observe({ kind: "permission_asked", ...asked });
  const { type: _c, member: _cm, turn: _ct, ...closed } = EVENTS["turn.permission_closed"];
  stage.runner.observe({ kind: "permission_closed", ...closed, detail: long });
  await settled();
  expect(stage.broken).toEqual([]);
  expect(stage.types.slice(-4)).toEqual([
    "turn.tool",
    "turn.waiting",
    "turn.permission_asked",
    "turn.permission_closed",
  ]);
});

test("what belongs to an earlier turn does not leak into one that was not submitted yet", async () => {
  const stage = new Stage();
  const gate = Promise.withResolvers<typeof EVIDENCE>();
  stage.resident.answers.gate = () => gate.promise;
  await stage.start();
  for (const stray of [OWN_EVENT, NATIVE_END]) stage.runner.observe(stray);
  stage.runner.observe({ kind: "text", part: "p", from: 0, text: "of an earlier turn" });
  gate.resolve(EVIDENCE);
  await settled();
  stage.runner.observe(OWN_EVENT);
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.settlement()).toMatchObject({ outcome: "completed", parts: [] });
});

test("what the CLI withdraws is not in the turn's text", async () => {
  const stage = await new Stage().run();
  stage.runner.observe({ kind: "text", part: "p", from: 0, text: "the user's own message" });
  stage.runner.observe({ kind: "withdrawn", part: "p" });
  stage.runner.observe({ kind: "text", part: "q", from: 0, text: "answer" });
  expect(stage.runner.textOf("p")).toBe("");
  stage.runner.observe(NATIVE_END);
  await settled();
  expect(stage.settlement().parts).toEqual(["answer"]);
});

test("nothing that comes after the end changes it", async () => {
  const stage = await new Stage().run();
  stage.runner.observe(NATIVE_END);
  await settled();
  const before = structuredClone(stage.settlement());
  for (const late of [OWN_EVENT, STREAM_LOST, NATIVE_END]) stage.runner.observe(late);
  stage.runner.observe({ kind: "text", part: "p", from: 0, text: "late" });
  stage.runner.processExited(EXIT);
  stage.runner.abort();
  await stage.clock.elapse(100_000);
  expect(stage.settlements).toEqual([before]);
  expect(stage.count("abort")).toBe(0);
  expect(stage.broken).toEqual([]);
});

test("S18: a settlement that can't be stored is no settlement: the bridge is told, and nobody waits for ever", async () => {
  const stage = new Stage();
  const ending = stage.hold("turn.ended");
  await stage.run();
  stage.runner.observe(NATIVE_END);
  await settled();
  ending.reject(new HoldfastError("STORE_ERROR"));
  await stage.runner.ended;
  await settled();
  expect(stage.settlements).toEqual([]);
  expect(stage.broken.map(({ code }) => code)).toEqual(["STORE_ERROR"]);
});

test("requests that are open when a turn is ended early are closed in the record, before its end", async () => {
  const stage = await new Stage().run();
  const endTurn = stage.resident.endTurn;
  stage.resident.endTurn = () => {
    const { type: _, member: __, turn: ___, ...closed } = EVENTS["turn.permission_closed"];
    stage.runner.observe({
      kind: "permission_closed",
      ...closed,
      result: "closed_by_end",
      reply: null,
      by: null,
    });
    endTurn.call(stage.resident);
    // Nothing of the turn is taken once it has let go of it.
    stage.runner.observe({ kind: "text", part: "p", from: 0, text: "late" });
  };
  stage.runner.observe(STREAM_LOST);
  await settled();
  await stage.clock.elapse(20_000);
  expect(stage.order.slice(stage.order.indexOf("turn.permission_closed"))).toEqual([
    "turn.permission_closed",
    "turn.ended",
    "onEnded",
  ]);
  expect(stage.settlement()).toMatchObject({ outcome: "stream_lost", parts: [] });
});

test("an answer that comes behind the turn's end is told that its request is closed, before the end is stored too", async () => {
  const stage = new Stage();
  const ending = stage.hold("turn.ended");
  await stage.run();
  stage.runner.observe(NATIVE_END);
  await settled();
  const closed = expect.objectContaining({ code: "REQUEST_CLOSED" });
  const answer = () => stage.runner.answerQuestion("s", "q", null);
  expect(answer).toThrow(closed);
  expect(() => stage.runner.answerPermission("s", "p", "once")).toThrow(closed);
  ending.resolve();
  await settled();
  expect(answer).toThrow(closed);
  expect(stage.resident.calls.filter((name) => name.startsWith("answer"))).toEqual([]);
});

test("what the surroundings have to say is in the settlement, and decides nothing", async () => {
  const stage = new Stage();
  stage.witnesses = async () => [{ ...EVIDENCE, what: "out_of_memory" }];
  await stage.run();
  stage.runner.observe(NATIVE_END);
  await stage.runner.ended;
  expect(stage.settlement()).toMatchObject({ outcome: "completed", settled: true, keepsProcess: true });
  expect(stage.whats()).toContain("out_of_memory");
});

test("a wall clock that jumps by an hour, either way, lets no limit pass and stretches none", async () => {
  for (const hours of [1, -1]) {
    const stage = new Stage();
    await stage.start();
    stage.clock.setWallClock(hours * 3_600_000);
    await stage.clock.elapse(LIMITS.firstEventMs - 1);
    expect(stage.count("abort")).toBe(0);
    stage.runner.observe(OWN_EVENT);
    await settled();
    stage.clock.setWallClock(hours * 3_600_000);
    await stage.clock.elapse(LIMITS.turnMs - LIMITS.firstEventMs);
    expect(stage.count("abort")).toBe(0);
    await stage.clock.elapse(1);
    expect(stage.count("abort")).toBe(1);
    stage.runner.observe(NATIVE_END);
    await stage.runner.ended;
    for (const ms of Object.values(stage.settlement().timings)) expect(ms ?? 0).toBeGreaterThanOrEqual(0);
    expect(stage.settlement().timings.totalMs).toBeLessThanOrEqual(LIMITS.turnMs + 1);
  }
});
