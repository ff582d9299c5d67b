/** The protocol's public surface, by name. Inside the project files import from the file that decides. */
export { type AttestationFacts, attest, HelperReport } from "./attestation.ts";
export {
  type ContextDecision,
  type ContextFacts,
  decideContext,
  type ResumeResult,
} from "./context-status.ts";
export { ERROR_CATALOGUE, type ErrorCode, HoldfastError, WireError } from "./errors.ts";
export { ControlEvent, NumberedEvent } from "./events.ts";
export { Evidence } from "./evidence.ts";
export { Cursor, FRAMES, Frame } from "./frame.ts";
export { Launch, ModelChoice } from "./launch.ts";
export { LIMITS } from "./limits.ts";
export { CliName, ContainerIdentity, Locator, TailReference } from "./locator.ts";
export { METHODS, type MethodName, type Params, type Result } from "./methods.ts";
export { ModelProtocol, PROTOCOL_OF_CLI } from "./model-protocol.ts";
export { PermissionReply, PermissionRequest } from "./permission.ts";
export {
  ALLOW_ALL,
  decidePermission,
  MemberPolicy,
  PermissionAction,
  PermissionRule,
} from "./permission-policy.ts";
export { HELPER_FEATURES, HELPER_PIN, readPin } from "./pin.ts";
export { checkMove, RECORD_MOVES, RECORD_STATES, type RecordState } from "./record-state.ts";
export { ContextStatus, concludeTurn, Outcome, Settlement, Timings } from "./settlement.ts";
export { NEW_TURN, TURN_EVENTS, TURN_STATES, TURN_TABLE, transition } from "./turn-state.ts";
export { addUsage, sumUsage, Usage } from "./usage.ts";
