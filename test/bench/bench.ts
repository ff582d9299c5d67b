// What a bench is given and what it gives back.
import type { Figure } from "./figures.ts";
import type { Scope } from "./scope.ts";

export interface BenchContext {
  /** Fewer runs, the same things measured. */
  isQuick: boolean;
  scope: Scope;
  /** An empty folder of its own, removed afterwards. Its path is short: a Unix socket's has 107 bytes. */
  directory: string;
  node: string;
  /** The bundled bridge of these sources. */
  bridgePath: string;
  /** Where a real CLI runs; only asked for by benches that need one. */
  place: () => Promise<Place>;
  /** Value of the label on containers and of the mark on processes. */
  run: string;
  /** CPU profiles go here; null: none are taken. */
  profileDirectory: string | null;
  say: (line: string) => void;
}

/** Containers when an engine answers, else plain processes; the baseline always runs in the same kind of place. */
export type Place =
  | { kind: "container"; engineSocketPath: string; imageRecordPath: string; command: readonly string[] }
  | { kind: "process"; why: string; command: readonly string[]; version: string };

export interface BenchReport {
  title: string;
  figures: Figure[];
  /** How it was measured, where that is not said by the figures' names. */
  notes: string[];
}

export interface Bench {
  name: string;
  /** One line for --help. */
  about: string;
  /** For its figures, if nothing else uses the machine. */
  measure(context: BenchContext): Promise<BenchReport>;
}
