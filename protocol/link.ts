/**
 * A link: an ordered two-way channel of frames. Here are its interface, the in-memory pair for tests, and the adapter
 * over a WebSocket, which both sides share. The adapter knows the socket and no meaning.
 */
import { decode, encode } from "./codec.ts";
import { asHoldfastError, type HoldfastError } from "./errors.ts";
import type { Frame } from "./frame.ts";

export interface Link {
  /** Sends a batch. After the close it does nothing: what is pending was settled by `onClose`. */
  send(frames: readonly Frame[]): void;
  /** Bytes handed to the transport and not yet taken by it. */
  bufferedBytes(): number;
  /** Set once, before the first frame can arrive. `onClose` is called once, with the cause or null. */
  start(receiver: LinkReceiver): void;
  close(cause: HoldfastError | null): void;
}

export interface LinkReceiver {
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

  socket.on("message", (bytes, isBinary) => {
    if (isClosed) return;
    try {
      if (!isBinary || !(bytes instanceof Uint8Array)) throw new TypeError("a message must be binary");
      const frames = decode(bytes);
      if (receiver === null) early.push(frames);
      else receiver.onFrames(frames);
    } catch (error) {
      closeWith(asHoldfastError(error, "FRAME_INVALID"));
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
      socket.send(encode(frames), (error) => {
        if (error) closeWith(asHoldfastError(error, "LINK_CLOSED"));
      });
    },
    bufferedBytes: () => socket.bufferedAmount,
    start(given) {
      receiver = given;
      for (const frames of early.splice(0)) receiver.onFrames(frames);
      if (isClosed) receiver.onClose(firstCause);
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
  let isClosed = false;

  function deliver(end: { receiver: LinkReceiver | null; waiting: Uint8Array[] }): void {
    const { receiver } = end;
    if (receiver === null) return;
    for (const bytes of end.waiting.splice(0)) receiver.onFrames(decode(bytes));
  }

  function endAt(mine: 0 | 1): Link {
    const theirs = ends[1 - mine] as (typeof ends)[number];
    const own = ends[mine] as (typeof ends)[number];
    return {
      send(frames) {
        if (isClosed || frames.length === 0) return;
        theirs.waiting.push(encode(frames));
        void Promise.resolve().then(() => deliver(theirs));
      },
      bufferedBytes: () => 0,
      start(receiver) {
        own.receiver = receiver;
        void Promise.resolve().then(() => deliver(own));
      },
      close(cause) {
        if (isClosed) return;
        isClosed = true;
        for (const end of ends) end.receiver?.onClose(cause);
      },
    };
  }
  return [endAt(0), endAt(1)];
}
