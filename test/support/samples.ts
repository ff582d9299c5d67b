// One good value of everything that has a schema. Typed by kind, so that a new kind without a sample does not compile.
import type { HelperReport } from "../../protocol/attestation.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Cursor, FrameKind, FrameOf } from "../../protocol/frame.ts";
import type { Launch } from "../../protocol/launch.ts";
import type { LaunchParts } from "../../protocol/launch-parts.ts";
import type { ContainerIdentity, Locator } from "../../protocol/locator.ts";
import type { MethodName, Params, Result } from "../../protocol/methods.ts";
import type { PermissionRequest } from "../../protocol/permission.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import type { QuestionRequest } from "../../protocol/question.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import type { Usage } from "../../protocol/usage.ts";

export const DIGEST_A: string = "a".repeat(64);
export const DIGEST_B: string = "b".repeat(64);
export const AT = 1_700_000_000_000;

export const CONTAINER: ContainerIdentity = {
  sandboxId: "box-1",
  generation: 1,
  containerId: "c0ffee",
  imageId: "sha256:1234",
  helperSha256: DIGEST_A,
};

export const LOCATOR: Locator = {
  format: 1,
  cli: "opencode",
  cliVersion: "1.14.50",
  nativeId: "ses_1",
  directory: "/workspace",
  container: CONTAINER,
  settledTurns: 2,
  tail: { role: "assistant", id: "msg_9" },
};

export const LAUNCH: Launch = {
  cli: "opencode",
  model: { name: "m1", protocol: "chat-completions", contextTokens: 200_000, outputTokens: 8_000 },
  permissions: {
    default: "allow",
    rules: [{ tool: "bash", pattern: "git *", action: "ask" }],
    askLimitMs: 60_000,
    askDefault: "deny",
  },
  background: false,
  digest: DIGEST_B,
};

export const LAUNCH_PARTS: LaunchParts = {
  image: DIGEST_A,
  cliVersion: DIGEST_A,
  model: DIGEST_A,
  configuration: DIGEST_A,
  policy: DIGEST_A,
  environment: DIGEST_A,
};

export const EVIDENCE: Evidence = {
  what: "session.idle",
  source: "stream",
  processGeneration: 1,
  subscription: 2,
  sequence: 17,
  at: AT,
  detail: "root session",
};

export const USAGE: Usage = {
  source: "cli",
  inputTokens: 10,
  outputTokens: 5,
  reasoningTokens: null,
  cacheReadTokens: 0,
  cacheWriteTokens: 3,
};

export const SETTLEMENT: Settlement = {
  outcome: "completed",
  settled: true,
  context: "LIVE",
  contextReason: "the resident process took the last turn",
  session: {
    nativeId: "ses_1",
    directory: "/workspace",
    tail: { role: "assistant", id: "msg_11" },
    isVerified: true,
  },
  processGeneration: 1,
  parts: ["Größe", " 🦑"],
  textIsCut: false,
  textIsPartial: false,
  usage: USAGE,
  evidence: [EVIDENCE],
  timings: {
    admitMs: 1,
    prepareMs: 0.5,
    gateMs: 3,
    submitMs: 4,
    firstEventMs: 20,
    settleMs: 900,
    verifyMs: 6,
    totalMs: null,
  },
  error: null,
  keepsProcess: true,
};

export const PERMISSION: PermissionRequest = {
  request: "per_1",
  session: "ses_1",
  permission: "bash",
  patterns: ["ls *"],
};

export const QUESTION: QuestionRequest = {
  request: "que_1",
  session: "ses_2",
  ancestry: [
    { session: "ses_2", title: "explore" },
    { session: "ses_1", title: "" },
  ],
  items: [
    {
      header: "Color",
      question: "Pick a color",
      options: [{ label: "red", description: "r" }],
      isMultiple: false,
      isOpen: true,
    },
  ],
};

const ofTurn = { member: "m-1", turn: "t-1" };

/** A control event of each type. */
export const EVENTS: { [T in ControlEvent["type"]]: Extract<ControlEvent, { type: T }> } = {
  "turn.accepted": { type: "turn.accepted", ...ofTurn, number: 3 },
  "turn.context": { type: "turn.context", ...ofTurn, status: "NEW", reason: "first", nativeId: null },
  "turn.gated": { type: "turn.gated", ...ofTurn, evidence: EVIDENCE },
  "turn.submitting": { type: "turn.submitting", ...ofTurn, nativeMessage: "msg_10" },
  "turn.delivered": { type: "turn.delivered", ...ofTurn },
  "turn.waiting": { type: "turn.waiting", ...ofTurn, reason: "rate limit", attempt: 1, nextAt: AT },
  "turn.tool": {
    type: "turn.tool",
    ...ofTurn,
    session: "ses_1",
    call: "call_1",
    tool: "bash",
    status: "running",
    title: "ls",
  },
  "turn.permission_asked": {
    type: "turn.permission_asked",
    ...ofTurn,
    request: PERMISSION,
    ancestry: [{ session: "ses_1", title: "explore" }],
    action: "ask",
    deadlineAt: AT,
  },
  "turn.permission_closed": {
    type: "turn.permission_closed",
    ...ofTurn,
    request: "per_1",
    session: "ses_1",
    result: "confirmed",
    reply: "once",
    by: "policy",
    detail: "",
  },
  "turn.question_asked": { type: "turn.question_asked", ...ofTurn, question: QUESTION, deadlineAt: AT },
  "turn.question_closed": {
    type: "turn.question_closed",
    ...ofTurn,
    request: "que_1",
    session: "ses_1",
    result: "confirmed",
    reply: "answered",
    by: "user",
    detail: "",
  },
  "turn.ended": { type: "turn.ended", ...ofTurn, number: 3, settlement: SETTLEMENT },
  "turn.vetoed": { type: "turn.vetoed", ...ofTurn },
  "member.process": {
    type: "member.process",
    member: "m-1",
    processGeneration: 1,
    state: "ready",
    detail: "",
  },
  "member.subscription": {
    type: "member.subscription",
    member: "m-1",
    subscription: 2,
    state: "live",
    detail: "",
  },
  "member.unrequested": {
    type: "member.unrequested",
    member: "m-1",
    session: "ses_1",
    state: "started",
    detail: "status busy",
  },
};

export const CURSOR: Cursor = { journalId: "j-1", epoch: 2, seq: 40 };

/** A frame of each kind. */
export const FRAME_OF: { [K in FrameKind]: FrameOf<K> } = {
  hello: {
    kind: "hello",
    pin: HELPER_PIN,
    sandboxId: "box-1",
    token: "0123456789abcdef",
    head: CURSOR,
    acked: 38,
    fence: 6,
  },
  welcome: { kind: "welcome", fence: 7, applied: 39 },
  refuse: { kind: "refuse", error: { code: "FENCED", message: "fence 6 is past", details: { fence: 6 } } },
  event: { kind: "event", entry: { seq: 40, at: AT, event: EVENTS["turn.ended"] } },
  ack: { kind: "ack", seq: 40 },
  delta: { kind: "delta", turn: "t-1", part: "prt_1", offset: 5, text: "Größe 🦑" },
  snapshot: { kind: "snapshot", turn: "t-1", part: "prt_1", text: "" },
  consumed: { kind: "consumed", bytes: 4096 },
  request: { kind: "request", id: 1, method: "turn.abort", params: { turn: "t-1" } },
  response: { kind: "response", id: 1, result: { wasResident: true }, error: null },
  ping: { kind: "ping", n: 1 },
  pong: { kind: "pong", n: 1 },
};

export const REPORT: HelperReport = {
  pin: HELPER_PIN,
  features: [...HELPER_FEATURES],
  clis: [{ cli: "opencode", version: "1.14.50" }],
  proof: DIGEST_B,
  helperSha256: DIGEST_A,
  epoch: 2,
  earlierEnd: "clean",
};

/** Fitting params of each method. */
export const PARAMS: { [M in MethodName]: Params<M> } = {
  "bridge.challenge": { nonce: DIGEST_A },
  "bridge.status": {},
  "turn.submit": {
    turn: "t-1",
    member: "m-1",
    number: 3,
    text: "Hallo, Größe 🦑\n",
    launch: LAUNCH,
    launchParts: LAUNCH_PARTS,
    locator: LOCATOR,
    locatorIsPending: false,
    mustProve: null,
    forks: false,
    settledTurns: 2,
    container: CONTAINER,
    limitMs: 0,
  },
  "turn.abort": { turn: "t-1" },
  "turn.recover": { turn: "t-1", member: "m-1", number: 3, launch: LAUNCH },
  "permission.answer": { turn: "t-1", session: "ses_1", request: "per_1", reply: "once" },
  "question.answer": { turn: "t-1", session: "ses_2", request: "que_1", answers: [["red"]] },
  "member.retire": { member: "m-1" },
  "member.fork": { member: "m-2", parent: "m-1", parentNumber: 3, launch: LAUNCH, locator: LOCATOR },
};

/** A fitting result of each method. */
export const RESULTS: { [M in MethodName]: Result<M> } = {
  "bridge.challenge": REPORT,
  "bridge.status": {
    members: [
      {
        member: "m-1",
        cli: "opencode",
        processGeneration: 1,
        subscription: 2,
        activeTurn: null,
        nativeId: "ses_1",
        tookLastTurn: true,
        launchDigest: DIGEST_B,
        launchParts: LAUNCH_PARTS,
        rssBytes: 350_000_000,
      },
    ],
    openTurns: [{ turn: "t-1", member: "m-1", number: 3 }],
    numbers: [{ member: "m-1", number: 3 }],
  },
  "turn.submit": {},
  "turn.abort": {},
  "turn.recover": { state: "never_received" },
  "permission.answer": {},
  "question.answer": {},
  "member.retire": { wasResident: false },
  "member.fork": { session: { nativeId: "ses_2", directory: "/workspace", tail: LOCATOR.tail } },
};
