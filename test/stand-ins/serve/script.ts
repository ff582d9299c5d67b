// What the stand-in is told to do: one JSON file. Everything is optional; an empty script plays a well-behaved server.
import { readFileSync } from "node:fs";

/** How one reply to a permission request is answered. `lie`: 200, and nothing happens. `forget`: withdrawn, then 404. */
export type ReplyPlan = "ok" | "lie" | "forget" | "silent" | "effect-then-500" | number;

export interface AskPlan {
  /** One a reply; the last one repeats. */
  replies?: ReplyPlan[];
  /** The request comes before its tool is seen to run. */
  first?: boolean;
  /** The pending list has it, and no event says so (it was raised before the subscriber came). */
  silent?: boolean;
}

/** A question of the turn, with one item that has two options unless it says otherwise. */
export interface QuestionPlan {
  replies?: ReplyPlan[];
  items?: unknown[];
  silent?: boolean;
}

/** One thing that a turn does. Text and tools each make one assistant message. */
export type Step =
  | { text: string; pieces?: number }
  | { reasoning: string }
  /** A text, and a tool, that go on until the turn is aborted. */
  | { open: string }
  | { running: string }
  | { tool: string; ask?: AskPlan; leavesChild?: boolean }
  | { tools: AskPlan[] }
  /** A child session. `unseen`: no session.created. `lookups`: so many first look-ups of it answer 404. */
  | { task: Step[]; unseen?: boolean; lookups?: number; idle?: boolean }
  | { question: QuestionPlan }
  | { fail: string; message: string }
  | { cut: string }
  | { retry: string; inMs: number; goesOn?: boolean }
  | { overflow: true }
  /** Kilo: the provider is out of reach, for so many asks (one by default); each waits for its reply. */
  | { offline: string; times?: number }
  /** Kilo: so many transient text parts at the head of an answer, each a moment after the other. */
  | { transient: number }
  /** Waits until the test says so, or for ever. */
  | { hold: true }
  /** Says this and nothing more: no message, no idle. */
  | { onlyError: string; message: string }
  | { nothing: true }
  | { emit: { type: string; properties: Record<string, unknown> } }
  | { stream: StreamFault };

/** `mute`: the socket stays open and nothing more is written. `deaf`: heartbeats go on, events do not. */
export type StreamFault = "end" | "reset" | "mute" | "deaf" | "dispose";

export interface TurnPlan {
  /** How the prompt call is answered. `cut`: taken, and the connection is cut. `refuse-cut`: cut, and not taken. */
  answer?: number | "cut" | "refuse-cut" | "late" | "silent";
  steps: Step[];
}

export interface Script {
  /** Which of the two it plays: the order of their events differs, and a few calls. */
  cli?: "opencode" | "kilo";
  version?: string;
  ready?: { noise?: string; times?: number; afterMs?: number; byByte?: boolean; exit?: number };
  /** One a request; the last one repeats. */
  health?: Array<"ok" | "html" | "hang" | "refuse" | number>;
  stream?: {
    attachAfterMs?: number;
    heartbeat?: "data" | "comment" | "none";
    beatMs?: number;
    byByte?: boolean;
    /** Only what another directory's subscriber would get. */
    isElsewhere?: boolean;
  };
  /** What becomes of each canary; the last one repeats. `end`: the stream ends in its place. */
  canaries?: Array<"ok" | "swallow" | "refuse" | StreamFault>;
  turns?: TurnPlan[];
  /** `nothing`: answers true and nothing happens. `repeat`: the idle is said once more, after the answer. */
  abort?: "ordinary" | "nothing" | "repeat" | "silent" | number;
  /** Status of GET /session/:id, /message and /session/status in place of an answer. */
  sessionStatus?: number;
  messageStatus?: number;
  listStatus?: number;
  /** Status of the lists of pending requests. */
  pendingStatus?: number;
  ignoresSigterm?: boolean;
}

export function readScript(path: string): Script {
  return JSON.parse(readFileSync(path, "utf8")) as Script;
}

/** Takes the next of a list; the last one stays. */
export function next<T>(list: T[] | undefined, otherwise: T): T {
  if (list === undefined || list.length === 0) return otherwise;
  return (list.length > 1 ? list.shift() : list[0]) ?? otherwise;
}
