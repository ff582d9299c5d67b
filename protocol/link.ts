/**
 * A link: an ordered two-way channel of frames. Here are its interface, the in-memory pair for tests, and the adapter
 * over a WebSocket, which both sides share. The adapter knows the socket and no meaning.
 */
import { decode, encodeAll } from "./codec.ts";
import { asHoldfastError, HoldfastError } from "./errors.ts";
import type { Frame } from "./frame.ts";
import { LIMITS } from "./limits.ts";

export interface Link {
  /** Sends a batch. After the close it does nothing: what is pending was settled by `onClose`. */
  send(frames: readonly Frame[]): void;
  /** Bytes handed to the transport and not yet taken by it. */
  bufferedBytes(): number;
  /** Set once, before the first frame can arrive. `onClose` is called once, with the cause or null. */
  start(receiver: LinkReceiver): void;
  close(cause: HoldfastError | null): void;
}

interface LinkReceiver {
  onFrames(frames: Frame[]): void;
  onClose(cause: HoldfastError | null): void;
}

/** What the adapter needs of a WebSocket; the `ws` package's class fits. */
export interface Socket {
  readonly bufferedAmount: number;
  send(bytes: Uint8Array, done: (error?: Error | null) => void): void;
  close(code: number, reason: string): void;
  terminate(): void;
  on(event: "message", run: (bytes: unknown, isBinary: boolean) => void): unknown;
  on(event: "close", run: (code: number) => void): unknown;
  on(event: "error", run: (error: Error) => void): unknown;
}

/** Close codes of our own (4000 to 4999 are free for applications). */
const CLOSE_NORMAL = 1000;
const CLOSE_FAULT = 4000;

/** A link over an open WebSocket. A frame that can't be decoded closes it with a code; nothing is dropped in silence. */
export function socketLink(socket: Socket): Link {
  let receiver: LinkReceiver | null = null;
  let isClosed = false;
  let firstCause: HoldfastError | null = null;
  const early: Frame[][] = [];

  function closeWith(cause: HoldfastError | null): void {
    if (isClosed) return;
    isClosed = true;
    firstCause ??= cause;
    if (cause === null) socket.close(CLOSE_NORMAL, "");
    else socket.close(CLOSE_FAULT, cause.code);
    // A peer that is silent will not answer the closing handshake either; for others ws has a closing timer of its own.
    if (cause?.code === "LINK_TIMEOUT") socket.terminate();
    receiver?.onClose(firstCause);
  }

  function receive(frames: Frame[]): void {
    if (receiver !== null) receiver.onFrames(frames);
    else if (early.length < LIMITS.earlyMessages) early.push(frames);
    else throw new HoldfastError("OVERLOADED", "too many messages before the link was started");
  }

  socket.on("message", (bytes, isBinary) => {
    if (isClosed) return;
    try {
      if (!isBinary || !(bytes instanceof Uint8Array)) {
        throw new HoldfastError("FRAME_INVALID", "a message must be binary");
      }
      receive(decode(bytes));
    } catch (error) {
      closeWith(asHoldfastError(error));
    }
  });
  socket.on("close", () => {
    if (isClosed) return;
    isClosed = true;
    receiver?.onClose(firstCause);
  });
  socket.on("error", (error) => {
    firstCause ??= asHoldfastError(error, "LINK_CLOSED");
  });

  return {
    send(frames) {
      if (isClosed || frames.length === 0) return;
      for (const bytes of encodeAll(frames)) {
        if (isClosed) return;
        socket.send(bytes, (error) => {
          if (error) closeWith(asHoldfastError(error, "LINK_CLOSED"));
        });
      }
    },
    bufferedBytes: () => socket.bufferedAmount,
    start(given) {
      const wasClosed = isClosed;
      receiver = given;
      for (const frames of early.splice(0)) {
        // The receiver may have closed the link over an earlier one, and knows of it.
        if (isClosed === wasClosed) receiver.onFrames(frames);
      }
      if (wasClosed) receiver.onClose(firstCause);
    },
    close: closeWith,
  };
}

/** Two ends of one link, in one process. Frames pass through the codec, so only what is legal on the wire passes. */
export function memoryLinks(): [Link, Link] {
  const ends: Array<{ receiver: LinkReceiver | null; waiting: Uint8Array[] }> = [
    { receiver: null, waiting: [] },
    { receiver: null, waiting: [] },
  ];
  let closed: { cause: HoldfastError | null } | null = null;

  function deliver(end: { receiver: LinkReceiver | null; waiting: Uint8Array[] }): void {
    const { receiver } = end;
    if (receiver === null) return;
    for (let bytes = end.waiting.shift(); bytes !== undefined; bytes = end.waiting.shift()) {
      receiver.onFrames(decode(bytes));
    }
  }

  function endAt(mine: 0 | 1): Link {
    const theirs = ends[1 - mine] as (typeof ends)[number];
    const own = ends[mine] as (typeof ends)[number];
    return {
      send(frames) {
        if (closed !== null || frames.length === 0) return;
        theirs.waiting.push(...encodeAll(frames));
        void Promise.resolve().then(() => deliver(theirs));
      },
      bufferedBytes: () => 0,
      start(receiver) {
        own.receiver = receiver;
        const cause = closed;
        void Promise.resolve().then(() => {
          deliver(own);
          if (cause !== null) receiver.onClose(cause.cause);
        });
      },
      close(cause) {
        if (closed !== null) return;
        closed = { cause };
        own.waiting.length = 0;
        own.receiver?.onClose(cause);
        // As on a socket: what was sent before the close arrives before it.
        deliver(theirs);
        theirs.receiver?.onClose(cause);
      },
    };
  }
  return [endAt(0), endAt(1)];
}
