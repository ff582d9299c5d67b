/** The controller's public surface, by name. */
export { ERROR_CATALOGUE, type ErrorCode, HoldfastError } from "../protocol/errors.ts";
export type { ControlEvent, NumberedEvent } from "../protocol/events.ts";
export type { Evidence } from "../protocol/evidence.ts";
export type { Locator } from "../protocol/locator.ts";
export { type ModelProtocol, PROTOCOL_OF_CLI } from "../protocol/model-protocol.ts";
export { ALLOW_ALL, MemberPolicy, type PermissionRule } from "../protocol/permission-policy.ts";
export type { QuestionAnswers, QuestionRequest } from "../protocol/question.ts";
export type { ContextStatus, Outcome, Settlement } from "../protocol/settlement.ts";
export type { DeploymentReport } from "./deployment.ts";
export type { ForkOptions } from "./forks.ts";
export { type Host, type HostOptions, openHost, type TurnOptions } from "./host.ts";
export type { HostReport } from "./host-report.ts";
export type { TurnInspection } from "./inspection.ts";
export type { NextContext } from "./next-context.ts";
export type { UserRequest } from "./open-requests.ts";
export type { CallSums } from "./relay/call-sums.ts";
export { RELAY_DEFAULTS, type RelayLimits } from "./relay/limits.ts";
export type { CallOutcome, ModelCall } from "./relay/model-call.ts";
export { comparePrefix, type PrefixVerdict } from "./relay/prefix-verdict.ts";
export { digestRequest, type RequestDigest } from "./relay/request-digest.ts";
export { everyProtocol, type RelayOptions, type RelayRoute } from "./relay/routes.ts";
export { type SimulatedCache, simulatePrefixCache } from "./relay/simulated-cache.ts";
export type { ResidencyLimits } from "./residency-decision.ts";
export { DOCKER_DEFAULTS, type DockerOptions, dockerSandboxes } from "./sandboxes/docker.ts";
export { type EngineApi, engineSocket, openEngine } from "./sandboxes/engine-api.ts";
export { type ProcessOptions, processSandboxes } from "./sandboxes/process.ts";
export type { PinnedBuild, SandboxDriver, SandboxSpec, SandboxState } from "./sandboxes/sandbox.ts";
export { type Setup, type SetupOptions, setUp } from "./setup.ts";
export { type BackupOptions, backupStore } from "./store/backup.ts";
export type { Budget } from "./store/budgets.ts";
export { checkStore, type StoreCheck } from "./store/check.ts";
export type { LaunchRevision } from "./store/launch-revisions.ts";
export type { CallsOf, ModelCalls, StatedUsage } from "./store/model-calls.ts";
export type {
  ForkRow,
  InspectionRow,
  MemberOptions,
  MemberRow,
  SandboxKind,
  SandboxRow,
  TurnRow,
} from "./store/records.ts";
export type { Store, UnrequestedEntry } from "./store/store.ts";
export type { TurnHandle, TurnUpdate } from "./turn-handle.ts";
export type { UsageReport } from "./usage-report.ts";
