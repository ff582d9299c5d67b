// Secrets as they may turn up: as they are, and in the encodings in which they travel or are logged.
import type { Readable } from "node:stream";

/** A text that stands nowhere else. */
export interface Canary {
  name: string;
  forms: Buffer[];
}

export function canary(name: string, secret: string): Canary {
  if (secret.length < 16) throw new TypeError(`the canary ${name} is too short to be told from chance`);
  const bytes = Buffer.from(secret);
  const texts = [secret, bytes.toString("hex"), encodeURIComponent(secret)];
  // Within a longer text (`user:password`) Base64 begins at one of three places.
  for (const shift of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString("base64")
      .replace(/=+$/, "");
    const inner = text.slice(Math.ceil((shift * 8) / 6), -1);
    texts.push(inner, inner.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return { name, forms: [...new Set(texts)].map((text) => Buffer.from(text)) };
}

/** The same, as they are alone: for what is too large to look at for each form. */
export function plainOnly(canaries: readonly Canary[]): Canary[] {
  return canaries.map(({ name, forms }) => ({ name, forms: forms.slice(0, 1) }));
}

/** Names of the canaries that are in the bytes, each once. */
export function canariesIn(bytes: Buffer | string, canaries: readonly Canary[]): string[] {
  const place = typeof bytes === "string" ? Buffer.from(bytes) : bytes;
  return canaries.filter(({ forms }) => forms.some((form) => place.includes(form))).map(({ name }) => name);
}

/** Looks at pieces of one text as they come. */
export class Watch {
  readonly found: Set<string> = new Set();
  readonly #canaries: readonly Canary[];
  readonly #overlap: number;
  #tail: Buffer = Buffer.alloc(0);

  constructor(canaries: readonly Canary[]) {
    this.#canaries = canaries;
    this.#overlap = Math.max(0, ...canaries.flatMap(({ forms }) => forms.map(({ length }) => length))) - 1;
  }

  see(piece: Buffer): void {
    const window = Buffer.concat([this.#tail, piece]);
    for (const name of canariesIn(window, this.#canaries)) this.found.add(name);
    this.#tail = window.subarray(Math.max(0, window.length - this.#overlap));
  }
}

export interface FoundFile {
  path: string;
  mode: number;
  uid: number;
  canaries: string[];
}

/**
 * The files of a tar, as it streams, that hold a canary. Rejects when it is cut.
 * @param skips paths that are not looked into
 */
export async function filesWithCanaries(
  tar: Readable,
  canaries: readonly Canary[],
  skips: (path: string) => boolean = () => false,
): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  const reader = new BlockReader(tar);
  let longName: string | null = null;
  for (;;) {
    const header = await reader.take(512);
    if (header === null || header[0] === 0) return found;
    const text = (from: number, length: number) =>
      header.toString("utf8", from, from + length).replace(/\0.*$/s, "");
    const octal = (from: number, length: number) => Number.parseInt(text(from, length).trim() || "0", 8);
    const size = octal(124, 12);
    const type = String.fromCharCode(header[156] ?? 0);
    const watch = new Watch(canaries);
    const isName = type === "x" || type === "L";
    const prefix = text(345, 155);
    const path = longName ?? (prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`);
    const isSkipped = !isName && skips(path);
    let name = Buffer.alloc(0);
    await reader.pass(Math.ceil(size / 512) * 512, (piece) => {
      if (isName) name = Buffer.concat([name, piece]);
      else if (!isSkipped) watch.see(piece);
    });
    if (isName) {
      const given = name.toString("utf8", 0, size);
      longName =
        type === "L" ? given.replace(/\0.*$/s, "") : (/(?:^|\n)\d+ path=(.*)\n/.exec(given)?.[1] ?? null);
      continue;
    }
    longName = null;
    if (watch.found.size > 0)
      found.push({ path, mode: octal(100, 8), uid: octal(108, 8), canaries: [...watch.found] });
  }
}

class BlockReader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: Readable) {
    this.#source = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async take(bytes: number): Promise<Buffer | null> {
    while (this.#rest.length < bytes) {
      const next = await this.#source.next();
      if (next.done) {
        if (this.#rest.length === 0) return null;
        throw new Error("the archive is cut");
      }
      this.#rest = Buffer.concat([this.#rest, next.value]);
    }
    const taken = this.#rest.subarray(0, bytes);
    this.#rest = this.#rest.subarray(bytes);
    return taken;
  }

  async pass(bytes: number, see: (piece: Buffer) => void): Promise<void> {
    let left = bytes;
    while (left > 0) {
      if (this.#rest.length === 0) {
        const next = await this.#source.next();
        if (next.done) throw new Error("the archive is cut");
        this.#rest = next.value;
      }
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      see(piece);
    }
  }
}
