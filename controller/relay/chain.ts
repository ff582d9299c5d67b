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
 * Null when nobody can say which chain it is: no member, no model, or neither the CLI nor the host names a session.
 * Requests without tools (titles, summaries) make a chain of their own beside the main one.
 */
export function chainKey(
  owner: { member: string | null; nativeId: string | null },
  digest: RequestDigest,
): string | null {
  const session = digest.session ?? owner.nativeId;
  if (owner.member === null || session === null || digest.model === null) return null;
  const lane = digest.tools.count > 0 ? "main" : "aside";
  return JSON.stringify([owner.member, session, digest.agent, digest.model, lane]);
}
