/**
 * A link's end that pairs requests with replies, keeps the link honest by pings, and hands everything else on.
 * It correlates and nothing else: no meaning, no socket. Whatever is pending settles once, also when the link closes.
 */
import type { Clock, SilenceWatch } from "./clock.ts";
import { watchSilence } from "./clock.ts";
import { asHoldfastError, fromWireError, HoldfastError, toWireError } from "./errors.ts";
import type { Frame, FrameOf } from "./frame.ts";
import { LIMITS } from "./limits.ts";
import type { Link } from "./link.ts";
import { METHODS, type MethodName, type MethodTable, type Params, type Result } from "./methods.ts";

/** The frames that an endpoint does not keep for itself. */
export type PassedFrame = Exclude<
  Frame,
  FrameOf<"request"> | FrameOf<"response"> | FrameOf<"ping"> | FrameOf<"pong">
>;

export interface EndpointOptions {
  link: Link;
  clock: Clock;
  /** What this side answers; null on the side that only asks. */
  methods: MethodTable | null;
  onFrames(frames: PassedFrame[]): void;
  /** Called once. Pending requests have already been rejected. */
  onClose(cause: HoldfastError | null): void;
  pingMs?: number;
  requestMs?: number;
}

export interface Endpoint {
  request<M extends MethodName>(method: M, params: Params<M>, limitMs?: number): Promise<Result<M>>;
  send(frames: readonly Frame[]): void;
  bufferedBytes(): number;
  /** Milliseconds since the other side was heard, or since the start. */
  silentMs(): number;
  close(cause: HoldfastError | null): void;
}

interface Pending {
  method: MethodName;
  resolve(value: unknown): void;
  reject(error: HoldfastError): void;
  cancelTimer(): void;
}

export function openEndpoint(options: EndpointOptions): Endpoint {
  const { link, clock } = options;
  const pingMs = options.pingMs ?? LIMITS.pingMs;
  const pending = new Map<number, Pending>();
  let nextId = 1;
  let pings = 0;
  let heardMs = clock.monotonicMs();
  let isClosed = false;

  // The peer has two intervals: silence past one sends a ping, past the second ends the link.
  let pingWatch: SilenceWatch = watchSilence(clock, pingMs, ping);
  const deathWatch = watchSilence(clock, pingMs * 2, () => {
    link.close(new HoldfastError("LINK_TIMEOUT", `the other side was silent for ${pingMs * 2} ms`));
  });

  function ping(): void {
    // The watch first: a send that fails closes the link at once, and stops it.
    pingWatch = watchSilence(clock, pingMs, ping);
    link.send([{ kind: "ping", n: ++pings }]);
  }

  function settle(id: number): Pending | undefined {
    const entry = pending.get(id);
    if (entry === undefined) return undefined;
    pending.delete(id);
    entry.cancelTimer();
    return entry;
  }

  function onResponse(frame: FrameOf<"response">): void {
    const entry = settle(frame.id);
    // A reply after its time-out: the request was settled, and first cause wins.
    if (entry === undefined) return;
    if (frame.error !== null) {
      entry.reject(fromWireError(frame.error));
      return;
    }
    const parsed = METHODS[entry.method].result.safeParse(frame.result);
    if (parsed.success) entry.resolve(parsed.data);
    else
      entry.reject(
        new HoldfastError("FRAME_INVALID", `the answer to ${entry.method} does not fit its schema`),
      );
  }

  async function answer(frame: FrameOf<"request">): Promise<void> {
    try {
      const result = await callMethod(options.methods, frame.method, frame.params);
      link.send([{ kind: "response", id: frame.id, result, error: null }]);
    } catch (error) {
      link.send([{ kind: "response", id: frame.id, result: null, error: toWireError(error) }]);
    }
  }

  link.start({
    onFrames(frames) {
      heardMs = clock.monotonicMs();
      pingWatch.touch();
      deathWatch.touch();
      let passed: PassedFrame[] = [];
      const pass = () => {
        if (passed.length > 0) options.onFrames(passed);
        passed = [];
      };
      for (const frame of frames) {
        if (frame.kind === "request") {
          // In the order of the wire: what came before the request is dealt with before it.
          pass();
          void answer(frame);
        } else if (frame.kind === "response") onResponse(frame);
        else if (frame.kind === "ping") link.send([{ kind: "pong", n: frame.n }]);
        else if (frame.kind !== "pong") passed.push(frame);
      }
      pass();
    },
    onClose(cause) {
      if (isClosed) return;
      isClosed = true;
      pingWatch.stop();
      deathWatch.stop();
      for (const id of [...pending.keys()]) {
        settle(id)?.reject(cause ?? new HoldfastError("LINK_CLOSED"));
      }
      options.onClose(cause);
    },
  });

  return {
    request<M extends MethodName>(
      method: M,
      params: Params<M>,
      limitMs = options.requestMs ?? LIMITS.requestMs,
    ) {
      return new Promise<Result<M>>((resolve, reject) => {
        if (isClosed) return reject(new HoldfastError("LINK_CLOSED"));
        if (pending.size >= LIMITS.pendingRequests) return reject(new HoldfastError("OVERLOADED"));
        // Checked here too: the codec replaces a lone surrogate, and the other side would take the changed text (law 1).
        parseParams(method, params);
        const id = nextId++;
        // An answer may wait to be read while a late timer fires (law 13).
        let cancelTimer = clock.after(limitMs, () => {
          cancelTimer = clock.afterPoll(() => {
            settle(id)?.reject(
              new HoldfastError("LINK_TIMEOUT", `${method} was not answered within ${limitMs} ms`),
            );
          });
        });
        pending.set(id, {
          method,
          resolve: resolve as (value: unknown) => void,
          reject,
          cancelTimer: () => cancelTimer(),
        });
        try {
          link.send([{ kind: "request", id, method, params }]);
        } catch (error) {
          settle(id)?.reject(asHoldfastError(error));
        }
      });
    },
    send: (frames) => link.send(frames),
    bufferedBytes: () => link.bufferedBytes(),
    silentMs: () => clock.monotonicMs() - heardMs,
    close: (cause) => link.close(cause),
  };
}

async function callMethod(table: MethodTable | null, name: string, params: unknown): Promise<unknown> {
  if (table === null || !Object.hasOwn(METHODS, name)) {
    throw new HoldfastError("METHOD_UNKNOWN", `the method ${name} is not known here`);
  }
  const method = name as MethodName;
  const run = table[method] as (params: unknown) => Promise<unknown>;
  return run(parseParams(method, params));
}

function parseParams(method: MethodName, params: unknown): unknown {
  const parsed = METHODS[method].params.safeParse(params);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues[0]?.path.join(".") ?? "";
  throw new HoldfastError("REQUEST_INVALID", `${method}: ${where || "params"} does not fit its schema`);
}
