// What the stand-in of pi is told to do. Without a word it is a pi that answers each prompt with "Played.".

/** One thing that it does, in order. */
export type Step =
  /** One JSON line. `OWN` in a text stands for the prompt's. */
  | { print: Record<string, unknown> }
  /** Bytes as they are, without a line's end. */
  | { raw: string }
  /** An answer of the model, from its start to its end; stored like pi's own. */
  | { answer: string; stopReason?: string; isStored?: false }
  /** Waits until a line of this type was read from stdin since the prompt; the next such step waits for another one. */
  | { until: string }
  | { stderr: string }
  | { exit: number }
  | { kill: true }
  | { closeStdout: true }
  /** From here on `get_state` says this too. */
  | { state: Record<string, unknown> }
  /** From here on commands of this type get no answer. */
  | { deafTo: string };

export interface Script {
  /** Before anything is read. */
  start?: Step[];
  /** What our extension would say at the start, as changes of the usual; null: it does not run. */
  hello?: Record<string, unknown> | null;
  state?: Record<string, unknown>;
  /** Records of the history that it has loaded, oldest first, as (id, parent, role). */
  entries?: Array<[id: string, parent: string | null, role: string]>;
  /** One list a prompt; the last one serves all that follow. What comes before `accepted` is before the answer. */
  prompts?: Array<{ refused?: string; disposition?: string; before?: Step[]; steps: Step[] }>;
}
