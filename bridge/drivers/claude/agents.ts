/**
 * Subagents of a session and who started whom. Claude Code prints all of them under the root's session id: what tells
 * them apart is the tool call that they work for, and the id that a permission request carries. Pure.
 */
import { clip } from "../../../protocol/errors.ts";
import type { Ancestry } from "../../../protocol/question.ts";

/** Tool calls and agents that are remembered. Beyond: an agent's title and place are not known. */
const REMEMBERED = 10_000;
const DEPTH = 32;

export interface Agents {
  /** A tool call, by the agent that works for `parentCall`; null: by the root. */
  called(call: string, parentCall: string | null): void;
  started(agent: string, call: string, title: string): void;
  /** The session that an event with this parent call belongs to: an agent's id, or the root's. */
  sessionOf(parentCall: string | null): string;
  /** From the agent up to the root, each with the title that it was started under. */
  ancestry(session: string): Ancestry;
}

export function createAgents(root: string): Agents {
  const callers = new Map<string, string | null>();
  const agents = new Map<string, { call: string; title: string }>();
  const byCall = new Map<string, string>();

  function sessionOf(parentCall: string | null): string {
    // An agent that was not told of: its call stands for it.
    return parentCall === null ? root : (byCall.get(parentCall) ?? parentCall);
  }

  return {
    called(call, parentCall) {
      if (callers.size < REMEMBERED) callers.set(call, parentCall);
    },
    started(agent, call, title) {
      if (agents.size >= REMEMBERED) return;
      agents.set(agent, { call, title });
      byCall.set(call, agent);
    },
    sessionOf,
    ancestry(session) {
      const path: Ancestry = [];
      let at = session;
      while (at !== root && path.length < DEPTH - 1) {
        const known = agents.get(at);
        path.push({ session: at, title: clip(known?.title ?? "", 200) });
        at = known === undefined ? root : sessionOf(callers.get(known.call) ?? null);
      }
      return [...path, { session: root, title: "" }];
    },
  };
}
