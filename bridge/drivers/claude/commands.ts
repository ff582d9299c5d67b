/**
 * Commands of the CLI's own and of its user, by name: a text that begins with one would run it, or be put in its place, and
 * never reach the model (law 1). Names of letters, digits, `:`, `_` and `-` are refused on the host already
 * (`protocol/user-text.ts`); only the process knows the others. Pure.
 */

/** Names kept of one process. */
const KEPT = 10_000;
const WORD = /^\/(\S+)/;

export interface Commands {
  add(names: readonly string[]): void;
  /** From the answer to `initialize`: a list of objects with a name. */
  addNamed(commands: unknown): void;
  /** The command that this text would run, or null. */
  in(text: string): string | null;
}

export function createCommands(): Commands {
  const known = new Set<string>();
  function add(names: readonly string[]): void {
    for (const name of names) if (known.size < KEPT) known.add(name);
  }
  return {
    add,
    addNamed(commands) {
      const list: unknown[] = Array.isArray(commands) ? commands : [];
      add(
        list.flatMap((each) =>
          typeof each === "object" && each !== null && "name" in each && typeof each.name === "string"
            ? [each.name]
            : [],
        ),
      );
    },
    in(text) {
      const word = WORD.exec(text)?.[1];
      return word !== undefined && known.has(word) ? `/${word}` : null;
    },
  };
}
