// What a bench has started, and how each of it is ended: in the opposite order, all of it, also when one end fails.

export class Scope {
  readonly #ends: Array<() => Promise<unknown> | unknown> = [];
  #closing: Promise<void> | null = null;

  /** Runs `end` at the close, before what was named earlier. */
  defer(end: () => Promise<unknown> | unknown): void {
    this.#ends.push(end);
  }

  /** May be called twice (a signal, then the normal end): both wait for the same. Throws the first failure, at the end. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const failures: unknown[] = [];
    for (let end = this.#ends.pop(); end !== undefined; end = this.#ends.pop()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
