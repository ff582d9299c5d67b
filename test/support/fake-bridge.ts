/**
 * A bridge that plays by the test's script: a real WebSocket over the sandbox's own Unix socket, the real frames, and a
 * journal in memory that outlives its links. There is no CLI; at each step it does what the test says, vanishing included.
 */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { WebSocket } from "ws";
import { realClock } from "../../controller/clock.ts";
import { type Endpoint, openEndpoint, type PassedFrame } from "../../protocol/endpoint.ts";
import type { HoldfastError, WireError } from "../../protocol/errors.ts";
import type { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import type { Frame } from "../../protocol/frame.ts";
import { socketLink } from "../../protocol/link.ts";
import type { MethodName, MethodTable, Params, Result } from "../../protocol/methods.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { AT, DIGEST_A, SETTLEMENT } from "./samples.ts";
import { until } from "./until.ts";

export interface FakeBridgeOptions {
  /** The host's directory of the sandbox: the socket, and the token unless `token` is set. */
  directory: string;
  sandboxId: string;
  helperSha256?: string;
  clis?: Array<{ cli: "opencode"; version: string }>;
}

/** How a dial ended: taken, refused, or closed without a word. */
export type DialResult = "welcome" | "refuse" | "closed";

export class FakeBridge {
  pin: string = HELPER_PIN;
  /** What it says in its hello; null for the token of the directory. */
  token: string | null = null;
  sandboxId: string;
  helperSha256: string;
  clis: Array<{ cli: "opencode"; version: string }>;
  features: string[] = [...HELPER_FEATURES];
  journalId = "journal-1";
  epoch = 1;
  /** Set: the head that its hello names, whatever its journal holds. */
  claimedHead: number | null = null;
  journal: NumberedEvent[] = [];
  /** Sends what the controller lacks as soon as it is welcomed. */
  replays = true;

  readonly asked: Array<{ method: MethodName; params: unknown }> = [];
  readonly welcomes: Array<{ fence: number; applied: number }> = [];
  readonly refusals: WireError[] = [];
  readonly closes: Array<HoldfastError | null> = [];
  acked = 0;
  /** Set: what its hello names as dropped, and as the highest fence it has seen. */
  claimedAcked = 0;
  claimedFence = 0;
  consumedBytes = 0;

  readonly #directory: string;
  #socket: WebSocket | null = null;
  #endpoint: Endpoint | null = null;
  #isTaken = false;

  /** What it answers; a test replaces single ones. */
  answers: MethodTable = {
    "bridge.challenge": async ({ nonce }) => this.report(nonce),
    "bridge.status": async () => ({ members: [], openTurns: [], numbers: [] }),
    "turn.submit": async ({ turn, member, number }) => {
      this.emit({ type: "turn.accepted", member, turn, number });
      return {};
    },
    "turn.abort": async () => ({}),
    "turn.recover": async () => ({ state: "never_received" }),
    "permission.answer": async () => ({}),
    "question.answer": async () => ({}),
    "member.retire": async () => ({ wasResident: false }),
    "member.fork": async () => ({ session: null }),
  };

  constructor(options: FakeBridgeOptions) {
    this.#directory = options.directory;
    this.sandboxId = options.sandboxId;
    this.helperSha256 = options.helperSha256 ?? DIGEST_A;
    this.clis = options.clis ?? [{ cli: "opencode", version: "1.14.50" }];
  }

  report(nonce: string): Result<"bridge.challenge"> {
    return {
      pin: this.pin,
      features: this.features,
      clis: this.clis,
      proof: createHmac("sha256", this.ownToken()).update(`${nonce}:${this.helperSha256}`).digest("hex"),
      helperSha256: this.helperSha256,
      epoch: this.epoch,
      earlierEnd: this.epoch === 1 ? "none" : "clean",
    };
  }

  ownToken(): string {
    return this.token ?? readFileSync(join(this.#directory, "token"), "utf8").trim();
  }

  get head(): number {
    return this.journal.at(-1)?.seq ?? 0;
  }

  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** A socket that is open and has said nothing. */
  async connect(): Promise<WebSocket> {
    const socket = new WebSocket(`ws+unix:${join(this.#directory, "ctl.sock")}:/`, {
      perMessageDeflate: false,
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
    // Later errors are followed by the close, which is looked at.
    socket.on("error", () => undefined);
    this.#socket = socket;
    return socket;
  }

  /** Dials, says hello, and waits for what the controller makes of it. */
  async dial(): Promise<DialResult> {
    const socket = await this.connect();
    return new Promise<DialResult>((resolve) => {
      const endpoint = openEndpoint({
        link: socketLink(socket),
        clock: realClock,
        methods: this.#table(),
        onFrames: (frames) => {
          for (const frame of frames) this.#onFrame(frame, resolve);
        },
        onClose: (cause) => {
          this.closes.push(cause);
          if (this.#endpoint === endpoint) this.#isTaken = false;
          resolve("closed");
        },
      });
      this.#endpoint = endpoint;
      endpoint.send([this.hello()]);
    });
  }

  hello(): Extract<Frame, { kind: "hello" }> {
    const seq = this.claimedHead ?? this.head;
    const head = { journalId: this.journalId, epoch: this.epoch, seq };
    const { pin, sandboxId, claimedAcked: acked, claimedFence: fence } = this;
    return { kind: "hello", pin, sandboxId, token: this.ownToken(), head, acked, fence };
  }

  send(frames: readonly Frame[]): void {
    this.#endpoint?.send(frames);
  }

  /** Journals an event, and sends it when the link is taken. */
  emit(event: ControlEvent): NumberedEvent {
    const entry = { seq: this.head + 1, at: AT + this.head, event };
    this.journal.push(entry);
    if (this.#isTaken) this.send([{ kind: "event", entry }]);
    return entry;
  }

  /** The last submission that came. */
  submission(): Params<"turn.submit"> {
    const last = this.submissions().at(-1);
    if (last === undefined) throw new Error("nothing was submitted");
    return last;
  }

  submissions(): Array<Params<"turn.submit">> {
    return this.paramsOf("turn.submit");
  }

  paramsOf<M extends MethodName>(method: M): Array<Params<M>> {
    return this.asked.filter((entry) => entry.method === method).map(({ params }) => params as Params<M>);
  }

  /** Waits until a method has been asked so many times. */
  async untilAsked(method: MethodName, times = 1): Promise<void> {
    await until(`${times} x ${method}`, () => this.paramsOf(method).length >= times);
  }

  /** Ends the last submitted turn as the CLI would have: context, delivery, settlement. */
  end(changes: Partial<Settlement> = {}): void {
    const { turn, member, number, settledTurns, locator } = this.submission();
    const status = settledTurns === 0 ? "NEW" : "LIVE";
    const nativeId = locator?.nativeId ?? null;
    this.emit({ type: "turn.context", turn, member, status, reason: "", nativeId });
    this.emit({ type: "turn.delivered", turn, member });
    this.emit({
      type: "turn.ended",
      turn,
      member,
      number,
      settlement: { ...SETTLEMENT, context: status, ...changes },
    });
  }

  /** Closes in an orderly way. */
  close(): void {
    this.#endpoint?.close(null);
  }

  /** Gone in the middle of whatever it was. */
  vanish(): void {
    this.#isTaken = false;
    this.#socket?.terminate();
  }

  #table(): MethodTable {
    const table: Record<string, unknown> = {};
    for (const method of Object.keys(this.answers) as MethodName[]) {
      table[method] = (params: unknown) => {
        this.asked.push({ method, params });
        return (this.answers[method] as (params: unknown) => Promise<unknown>)(params);
      };
    }
    return table as unknown as MethodTable;
  }

  #onFrame(frame: PassedFrame, verdict: (result: DialResult) => void): void {
    if (frame.kind === "welcome") {
      this.welcomes.push({ fence: frame.fence, applied: frame.applied });
      this.#isTaken = true;
      const missing = this.journal.filter(({ seq }) => seq > frame.applied);
      if (this.replays) this.send(missing.map((entry) => ({ kind: "event", entry })));
      verdict("welcome");
    } else if (frame.kind === "refuse") {
      this.refusals.push(frame.error);
      verdict("refuse");
    } else if (frame.kind === "ack") this.acked = frame.seq;
    else if (frame.kind === "consumed") this.consumedBytes = frame.bytes;
  }
}
