/** What the store's thread and the thread with its connection say to each other. Types alone. */
import type { Value } from "./dialect.ts";
import type { Fault } from "./faults.ts";

export interface ConnectionOptions {
  url: string;
  schema: string;
  /** Of one statement, ms. */
  limitMs: number;
}

/** The host that a connection has to own before it serves. */
export interface Owner {
  host: string;
  /** The host's fence is this one, or another controller has it. */
  fence: number;
}

/** `on`: the connection that the statement belongs to; null: any. A statement of a connection that is gone is refused. */
export type Request =
  /** Answers once there is a connection, or why the first one could not be made. */
  | { kind: "connect"; limitMs: number }
  | { kind: "query"; on: number | null; sql: string; values: Value[] }
  /** Several statements at once, without values. Answers with the rows of the last one. */
  | { kind: "script"; on: number | null; sql: string }
  | { kind: "own"; owner: Owner }
  | { kind: "close" };

/** `abandon`: nobody waits for an answer of this connection any more, and it is thrown away. */
export type Letter = { id: number; request: Request } | { id: null; abandon: true };

export type Row = Readonly<Record<string, unknown>>;

/** `connection` counts those of this store, from 1. `command` is the server's word for what it did last. */
export type Answer =
  | { ok: true; connection: number; rows: Row[]; changes: number; command: string }
  | { ok: false; fault: Fault };

/** What the thread with the connection is started with. `answered` counts its answers, and wakes who waits. */
export interface ThreadOptions {
  connection: ConnectionOptions;
  port: import("node:worker_threads").MessagePort;
  answered: Int32Array<SharedArrayBuffer>;
}
