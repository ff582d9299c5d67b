// What the stand-in of codex is told to do. Without a word it is a codex that answers each prompt with "Played.".

/** One thing that it does, in order. */
export type Step =
  /** One JSON line. `THREAD`, `TURN` and `MESSAGE` in a text stand for the thread, the turn and our id of the prompt. */
  | { print: Record<string, unknown> }
  /** Bytes as they are, without a line's end; the same words stand in them. */
  | { raw: string }
  /** A message of the model, from its start to its end, in two deltas. */
  | { say: string; item?: string }
  /** The turn ends: idle, then its end, with another id when one is given. */
  | { end: "completed" | "failed" | "interrupted"; turn?: string; error?: Record<string, unknown> }
  /** Waits until this was read from stdin: a method, or `reply ID` for our reply to a request. */
  | { until: string }
  | { exit: number }
  | { kill: true }
  | { closeStdout: true };

export interface Prompt {
  /** The turn's id in the answer. Default: one of its own for each prompt. */
  turn?: string;
  /** The answer comes behind the turn's first events. */
  isLate?: true;
  /** Nothing but the answer. */
  isSilent?: true;
  /** Default: says "Played." and ends. */
  steps?: Step[];
}

export interface Script {
  /** What it says of itself. Default: the pinned version. */
  userAgent?: string;
  /** Each process makes a thread of its own; else all have the same id. */
  hasOwnThread?: true;
  /** Of the thread and the answer around it, where they are not the usual ones. */
  thread?: Record<string, unknown>;
  opened?: Record<string, unknown>;
  /** MCP servers of its settings. */
  servers?: Record<string, unknown>;
  /** What `thread/read` says beyond the thread; one after the other, the last one serves all that follow. */
  read?: Array<Record<string, unknown>>;
  /** Refusals by method, one after the other; null: the usual answer. The last one serves all that follow. */
  refuse?: Record<string, Array<string | null>>;
  /** Methods that get no answer. */
  deafTo?: string[];
  /** Printed behind the thread's answer. */
  opening?: Step[];
  /** One a prompt; the last one serves all that follow. */
  prompts?: Prompt[];
  /** Behind an interrupt that was not refused. Default: the turn ends as interrupted. */
  interrupted?: Step[];
  /** On SIGUSR2. */
  signalled?: Step[];
  /** Where every line that was read is kept. */
  readPath?: string;
}
