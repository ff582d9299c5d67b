// The driver contract's test double: a CLI without a process, of which each answer is the test's to give.
import type {
  Driver,
  IdentityResult,
  LaunchRequest,
  LaunchResult,
  Observation,
  Resident,
  SubmitResult,
} from "../../bridge/drivers/driver.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Locator } from "../../protocol/locator.ts";
import { EVIDENCE, USAGE } from "./samples.ts";

const GATE_EVIDENCE: Evidence = { ...EVIDENCE, what: "canary_returned" };
export const OWN_EVENT: Observation = {
  kind: "own_event",
  evidence: { ...EVIDENCE, what: "own_user_message" },
};
export const NATIVE_END: Observation = {
  kind: "native_end",
  status: "completed",
  error: null,
  tail: { role: "assistant", id: "msg_9" },
  usage: USAGE,
  evidence: [EVIDENCE],
};
export const STREAM_LOST: Observation = {
  kind: "stream_lost",
  reason: "silent",
  evidence: { ...EVIDENCE, what: "subscription_lost" },
};

/** A resident whose every answer can be replaced, and which keeps the calls in order. */
export interface FakeResident extends Resident {
  readonly calls: string[];
  /** What `submit` was given. */
  readonly prompts: string[];
  answers: {
    gate: () => Promise<Evidence>;
    submit: () => Promise<SubmitResult>;
    abort: () => Promise<boolean>;
    holdsMessage: () => Promise<"absent" | "present" | "unclear">;
    verify: () => Promise<IdentityResult>;
    stop: Resident["stop"];
  };
  isGone: boolean;
  retireReason: string | null;
  liveSubscription: number | null;
}

export function fakeResident(
  options: { nativeId?: string; processGeneration?: number; onCall?: (name: string) => void } = {},
): FakeResident {
  const calls: string[] = [];
  const note = (name: string) => {
    calls.push(name);
    options.onCall?.(name);
  };
  const prompts: string[] = [];
  const nativeId = options.nativeId ?? "ses_1";
  let messages = 0;
  const resident: FakeResident = {
    calls,
    prompts,
    isGone: false,
    retireReason: null,
    liveSubscription: 1,
    answers: {
      gate: async () => GATE_EVIDENCE,
      submit: async () => ({ kind: "accepted" }),
      abort: async () => true,
      holdsMessage: async () => "present",
      verify: async () => ({ kind: "verified", nativeId, evidence: EVIDENCE }),
      stop: async () => [],
    },
    processGeneration: options.processGeneration ?? 1,
    nativeId,
    directory: "/workspace",
    subscription: () => resident.liveSubscription,
    hasExited: () => resident.isGone,
    mustRetire: () => resident.retireReason,
    gate: called("gate", () => resident.answers.gate()),
    nextMessageId: () => `msg_own${++messages}`,
    submit(prompt) {
      note("submit");
      prompts.push(prompt.text);
      return resident.answers.submit();
    },
    abort: called("abort", () => resident.answers.abort()),
    holdsMessage: called("holdsMessage", () => resident.answers.holdsMessage()),
    answerPermission: () => note("answerPermission"),
    answerQuestion: () => note("answerQuestion"),
    verify: called("verify", () => resident.answers.verify()),
    endTurn: () => note("endTurn"),
    async stop() {
      note("stop");
      const left = await resident.answers.stop();
      resident.isGone = true;
      return left;
    },
  };
  return resident;

  function called<T>(name: string, answer: () => Promise<T>): () => Promise<T> {
    return () => {
      note(name);
      return answer();
    };
  }
}

/** A driver whose launches are answered by the test. Keeps what it was asked. */
export interface FakeDriver extends Driver {
  readonly launches: Array<{ request: LaunchRequest; locator: Locator | null }>;
  readonly residents: FakeResident[];
  /** Default: a new resident without a locator, a proven one with it. */
  onLaunch: (request: LaunchRequest, locator: Locator | null) => Promise<LaunchResult>;
  onProve: () => Promise<"absent" | "present" | "unclear">;
  /** The newest resident's process ends by itself. */
  exit(code: number | null): void;
  observe(observation: Observation): void;
}

export function fakeDriver(): FakeDriver {
  const driver: FakeDriver = {
    launches: [],
    residents: [],
    manifest: {
      cli: "opencode",
      gate: "canary-on-stream",
      provesDelivery: true,
      asksPermission: true,
      asksQuestions: false,
      reportsUsage: true,
      hasSubagents: true,
      fork: null,
      ranges: {},
    },
    async onLaunch(request, locator) {
      const resident = fakeResident({
        processGeneration: request.processGeneration,
        ...(locator === null ? {} : { nativeId: locator.nativeId }),
      });
      driver.residents.push(resident);
      if (locator === null) return { kind: "new", resident };
      return { kind: "resumed", resident, resume: { kind: "proven" } };
    },
    onProve: async () => "unclear",
    async launch(request, locator) {
      driver.launches.push({ request, locator });
      return driver.onLaunch(request, locator);
    },
    fork: async () => null,
    proveDelivery: (request, _nativeId, _nativeMessage) => {
      driver.launches.push({ request, locator: null });
      return driver.onProve();
    },
    exit(code) {
      const resident = driver.residents.at(-1);
      if (resident !== undefined) resident.isGone = true;
      driver.launches.at(-1)?.request.listener.onExit({ code, signal: null, stderrTail: "" });
    },
    observe: (observation) => driver.launches.at(-1)?.request.listener.onObservation(observation),
  };
  return driver;
}
