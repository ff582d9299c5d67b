// Waiting for something that happens by itself, with a limit: never for a fixed time.

const pollMs = 4;

/** Resolves with the first value of `look` that is neither null, undefined nor false; rejects after `limitMs`. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = 10_000,
): Promise<Exclude<T, null | undefined | false>> {
  const deadlineMs = performance.now() + limitMs;
  for (;;) {
    const value = await look();
    if (value !== null && value !== undefined && value !== false) {
      return value as Exclude<T, null | undefined | false>;
    }
    if (performance.now() > deadlineMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** The promise's result, or an error that names what did not come within `limitMs`. */
export async function within<T>(what: string, work: Promise<T>, limitMs = 10_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${limitMs} ms: ${what}`)), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
