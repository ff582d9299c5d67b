// Keeps what the loopback model received, within bounds, and lets a test wait for a request. Secrets are
// taken out before a record is made: of a key only the start of its hash is kept.
import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Purpose } from "./history.ts";
import { KEPT_BODIES_MAX_BYTES, KEPT_REQUESTS_MAX, WAITS_MAX } from "./limits.ts";
import type { NeutralRequest } from "./neutral.ts";
import type { Source } from "./scripts.ts";
import type { Step } from "./steps.ts";

/** `open`: not ended yet. `gone`: the client left first. `closed`: the model server was closed meanwhile. */
export type Ending =
  | "open"
  | "completed"
  | "status"
  | "endedEarly"
  | "errorChunk"
  | "cut"
  | "destroyed"
  | "gone"
  | "closed"
  | "unauthorized"
  | "refused";

interface Answer {
  readonly source: Source | "recall" | "builtIn";
  readonly round: number;
  readonly step: Step["kind"];
  /** Whether it was a `failFirst` status. */
  readonly isFailure: boolean;
}

export interface ModelRequest {
  readonly id: number;
  readonly protocol: string;
  /** Lower-case names; values of headers that carry secrets are replaced by `<redacted>`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Id of the subagent that asks, where its CLI says so in a header; null: the main chain, or not known. */
  readonly agent: string | null;
  /** First 12 hex digits of the SHA-256 of the presented key; null: no key arrived. See `keyHash`. */
  readonly keyHash: string | null;
  readonly arrivedAt: number;
  /** Null while the body hasn't arrived whole. */
  readonly bodyText: string | null;
  /** Null when the body could not be read as this protocol. */
  readonly request: NeutralRequest | null;
  readonly purpose: Purpose | null;
  readonly answer: Answer | null;
  readonly ending: Ending;
  readonly endedAt: number | null;
  /** The client closed the connection before the reply had ended. */
  readonly isClientGone: boolean;
  /** Why a `refused` one was refused. */
  readonly fault: string | null;
}

export type LiveRecord = { -readonly [Key in keyof ModelRequest]: ModelRequest[Key] };

const SECRET_HEADERS = new Set(["authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"]);

interface Wait {
  readonly check: () => void;
  readonly fail: (error: Error) => void;
}

export class Records {
  #kept: LiveRecord[] = [];
  #bodyBytes = 0;
  #nextId = 1;
  /** Records dropped for room since the last reset. */
  dropped = 0;
  readonly #waits = new Set<Wait>();

  open(protocol: string, headers: IncomingHttpHeaders, key: string | null, arrivedAt: number): LiveRecord {
    const record: LiveRecord = {
      id: this.#nextId++,
      protocol,
      headers: redacted(headers),
      agent: agentOf(headers),
      keyHash: key === null ? null : keyHash(key),
      arrivedAt,
      bodyText: null,
      request: null,
      purpose: null,
      answer: null,
      ending: "open",
      endedAt: null,
      isClientGone: false,
      fault: null,
    };
    this.#kept.push(record);
    this.#trim();
    this.changed();
    return record;
  }

  setBody(record: LiveRecord, bodyText: string): void {
    record.bodyText = bodyText;
    if (this.#kept.includes(record)) this.#bodyBytes += Buffer.byteLength(bodyText);
    this.#trim();
  }

  /** The first ending stays; a later one changes nothing. */
  end(record: LiveRecord, ending: Exclude<Ending, "open">, endedAt: number): void {
    if (record.ending !== "open") return;
    record.ending = ending;
    record.endedAt = endedAt;
    this.changed();
  }

  changed(): void {
    for (const wait of [...this.#waits]) wait.check();
  }

  list(): ModelRequest[] {
    return this.#kept.map((record) => ({ ...record }));
  }

  reset(): void {
    this.#kept = [];
    this.#bodyBytes = 0;
    this.dropped = 0;
  }

  /** Kept requests count as well. Rejects after the limit, or when the server closes. */
  wait(predicate: (request: ModelRequest) => boolean, limitMs: number): Promise<ModelRequest> {
    if (this.#waits.size >= WAITS_MAX) return Promise.reject(new RangeError(`more than ${WAITS_MAX} waits`));
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer);
        this.#waits.delete(wait);
        act();
      };
      const wait: Wait = {
        check: () => {
          try {
            const hit = this.#kept.find((record) => predicate(record));
            if (hit !== undefined) settle(() => resolve({ ...hit }));
          } catch (error) {
            settle(() => reject(error));
          }
        },
        fail: (error) => settle(() => reject(error)),
      };
      const timer = setTimeout(() => {
        wait.fail(new Error(`no such request within ${limitMs} ms; kept: ${this.#overview()}`));
      }, limitMs);
      this.#waits.add(wait);
      wait.check();
    });
  }

  close(): void {
    for (const wait of [...this.#waits]) wait.fail(new Error("the model server was closed"));
  }

  #overview(): string {
    return (
      this.#kept.map(({ id, purpose, ending }) => `${id} ${purpose ?? "?"} ${ending}`).join(", ") || "none"
    );
  }

  #trim(): void {
    while (this.#kept.length > KEPT_REQUESTS_MAX || this.#bodyBytes > KEPT_BODIES_MAX_BYTES) {
      const oldest = this.#kept.shift();
      if (oldest === undefined) return;
      this.#bodyBytes -= Buffer.byteLength(oldest.bodyText ?? "");
      this.dropped++;
    }
  }
}

export function keyHash(key: string): string {
  return createHash("sha256").update(key).digest("hex").slice(0, 12);
}

/** Claude Code names a subagent; in Codex a subagent is a thread of its own in the session of its root. */
function agentOf(headers: IncomingHttpHeaders): string | null {
  const named = headers["x-claude-code-agent-id"];
  if (typeof named === "string") return named;
  const { "thread-id": thread, "session-id": session } = headers;
  return typeof thread === "string" && session !== undefined && thread !== session ? thread : null;
}

function redacted(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      SECRET_HEADERS.has(name) ? "<redacted>" : String(value),
    ]),
  );
}
