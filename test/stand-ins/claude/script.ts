// What the stand-in for Claude Code does, as data; the schema of its one file.

/** In `print` the words OWN and SESSION stand for the turn's message and the session's id. */
export type Step =
  | { print: Record<string, unknown> }
  /** Bytes as they are, without a line feed. */
  | { raw: string }
  /** The same, one byte at a time. */
  | { bytewise: string }
  | { stderr: string }
  /** The own message is taken: `started`, `init`, and the message played back. */
  | { begin: true }
  /** A streamed answer of a model, with its `assistant` message. */
  | { answer: string }
  | { result: Record<string, unknown> }
  /** One legal message of so many bytes. */
  | { lineBytes: number }
  /** Streamed answers, each in pieces; the file `SCRIPT.done` has a byte more when all of them are read. */
  | { flood: Flood }
  /** Writes without a line feed for ever. */
  | { endless: true }
  /** Waits for a message of this kind: its `type`, or the `subtype` of a control request. */
  | { until: string }
  | { afterMs: number }
  | { closeStdout: true }
  | { exit: number };

export interface Flood {
  messages: number;
  pieces: number;
  chars: number;
}

export interface Script {
  /** The session that it names; default: the one that it was told. */
  session?: string;
  /** Before it reads anything. */
  start?: Step[];
  /** Control requests that get no answer, by subtype. */
  deafTo?: string[];
  /** Control requests that are answered with an error. */
  refuses?: string[];
  /** What it does on each message of the user; the last goes on for all that come. Default: it answers `Played.` */
  turns?: Step[][];
  /** It does not end with its stdin. */
  staysBehindInput?: boolean;
  /** It ends with its stdin only so much later. */
  endsAfterMs?: number;
  ignoresSigterm?: boolean;
}
