/**
 * The threads that work for one turn: the main one and its subagents. Every turn of a subagent names the main thread's
 * turn that it works for (`rootTurnId`), which is what makes its requests the turn's too; who started whom is told by
 * the item of the call. Pure. Codex reports all threads on one pipe and announces none of them.
 */
import { clip } from "../../../protocol/errors.ts";
import type { Ancestry } from "../../../protocol/question.ts";
import type { Item } from "./native-message.ts";

/** Subagents that are remembered. Beyond: further ones are nobody's, and their requests are declined. */
const CHILDREN = 1000;
const DEPTH = 32;

export interface NativeTurn {
  thread: string;
  turn: string;
}

export interface Family {
  /** A turn began on another thread; true when it works for ours. */
  began(child: NativeTurn, rootTurn: string | null, ours: string): boolean;
  /** It ended; true when it was one of ours. */
  ended(child: NativeTurn): boolean;
  holds(thread: string, turn: string): boolean;
  /** Who started whom, from the item of the call on the caller's thread. */
  called(caller: string, item: Item): void;
  /** Turns of subagents that have not ended. */
  atWork(): NativeTurn[];
  /** From the thread up to the main one, each with what it was started for. */
  ancestry(thread: string): Ancestry;
}

export function createFamily(root: string): Family {
  /** By thread: its turn, and whether that goes on. */
  const turns = new Map<string, { turn: string; isAtWork: boolean }>();
  const origins = new Map<string, { parent: string; title: string }>();

  const holds = (thread: string, turn: string) => turns.get(thread)?.turn === turn;

  return {
    began({ thread, turn }, rootTurn, ours) {
      if (thread === root || rootTurn !== ours) return false;
      if (!turns.has(thread) && turns.size >= CHILDREN) return false;
      turns.set(thread, { turn, isAtWork: true });
      return true;
    },
    ended({ thread, turn }) {
      if (!holds(thread, turn)) return false;
      turns.set(thread, { turn, isAtWork: false });
      return true;
    },
    holds,
    called(caller, { receiverThreadIds = [], prompt, agentThreadId, agentPath }) {
      const started = agentThreadId == null ? receiverThreadIds : [agentThreadId];
      for (const thread of started) {
        if (thread === root || origins.has(thread) || origins.size >= CHILDREN) continue;
        origins.set(thread, { parent: caller, title: clip(prompt ?? agentPath ?? "", 200) });
      }
    },
    atWork: () => [...turns].flatMap(([thread, { turn, isAtWork }]) => (isAtWork ? [{ thread, turn }] : [])),
    ancestry(thread) {
      const path: Ancestry = [];
      let at = thread;
      while (at !== root && path.length < DEPTH - 1) {
        const origin = origins.get(at);
        path.push({ session: at, title: origin?.title ?? "" });
        at = origin?.parent ?? root;
      }
      return [...path, { session: root, title: "" }];
    },
  };
}
