// What the programs of the bench "relay" tell one another.

export interface HopOrder {
  kind: "relay" | "pipe";
  socketPath: string;
  modelUrl: string;
  /** Of the relay's store. */
  directory: string;
}

export interface Recorded {
  outcome: string;
  usage: string;
}

export const TOKEN = "bench-token";
export type Order =
  | { kind: "short" }
  | { kind: "large"; bytes: number }
  /** Pieces of 20 ms, and the end with its usage after `endsMs`; null: never. */
  | { kind: "stream"; id: string; endsMs: number | null };

/** When the connection of a stream was closed, by its id, ns of the monotonic clock; those that ended by themselves too. */
export type Closes = Record<string, number>;
