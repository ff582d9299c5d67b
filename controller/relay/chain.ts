/**
 * To which chain a request belongs: the requests that grow out of one another, which a member makes in one native
 * session for one agent and one model. The CLIs name session and agent in headers of their own; those are hints, and are
 * never trusted with more than this grouping. Pure.
 */
import type { IncomingHttpHeaders } from "node:http";
import { plainId } from "./provider-id.ts";
import type { RequestDigest } from "./request-digest.ts";

/** Claude Code; Codex (a child's thread has an id of its own); OpenCode and Kilo. Measured on the pinned versions. */
const SESSION_HEADERS = ["x-claude-code-session-id", "session-id", "session_id", "x-session-id"] as const;
const AGENT_HEADERS = ["x-claude-code-agent-id", "thread-id"] as const;

export interface ChainHints {
  session: string | null;
  agent: string | null;
}

/** @param sessionKey a session that the body names; the headers go first */
export function hintsOf(headers: IncomingHttpHeaders, sessionKey: string | null): ChainHints {
  const first = (names: readonly string[]) =>
    names.map((name) => plainId(headers[name])).find((id) => id !== null) ?? null;
  const session = first(SESSION_HEADERS) ?? sessionKey;
  const agent = first(AGENT_HEADERS);
  return { session, agent: agent === session ? null : agent };
}

/**
 * `aside`: a request for a title or a summary is none of the conversation, and is compared with nothing.
 * `unknown`: nobody can say which chain it is, without a member, a model, or a session that the CLI or the host names.
 */
export type Chain = { kind: "main"; key: string } | { kind: "aside" } | { kind: "unknown" };

/** @param owner what the host knows; its native id stands in where the CLI names no session */
export function chainOf(
  owner: { member: string | null; nativeId: string | null },
  digest: RequestDigest,
): Chain {
  if (digest.isAside) return { kind: "aside" };
  const session = digest.session ?? owner.nativeId;
  if (owner.member === null || session === null || digest.model === null) return { kind: "unknown" };
  return { kind: "main", key: JSON.stringify([owner.member, session, digest.agent, digest.model]) };
}
