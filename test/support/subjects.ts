/** The CLIs that suites over several of them run with, by name: another one is added in this list and nowhere else. */
import { KILO_SUBJECT, OPENCODE_SUBJECT } from "../conformance/suite/served.ts";
import type { DriverSubject } from "../conformance/suite/subject.ts";

const SUBJECTS: ReadonlyMap<string, DriverSubject> = new Map([
  ["opencode", OPENCODE_SUBJECT],
  ["kilo", KILO_SUBJECT],
]);

/** Throws for a name that is not in the list. */
export function subjectOf(name: string): DriverSubject {
  const found = SUBJECTS.get(name);
  if (found === undefined)
    throw new Error(`no such CLI: ${name} (there are ${[...SUBJECTS.keys()].join(", ")})`);
  return found;
}

export function everySubject(): DriverSubject[] {
  return [...SUBJECTS.values()];
}
