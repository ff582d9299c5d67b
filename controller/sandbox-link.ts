/**
 * The controller's end of one sandbox's link: listens on the sandbox's own Unix socket, takes the bridge that dials, and
 * puts its events into the store before it acknowledges them. One of the two importers of ws.
 *
 *   bridge dials ─▶ hello: token, pin, journal ─▶ store.follow ─▶ welcome(fence, applied) ─▶ events ─▶ store.apply ─▶ ack
 */
import { timingSafeEqual } from "node:crypto";
import type { Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import type { Clock } from "../protocol/clock.ts";
import { type Endpoint, openEndpoint, type PassedFrame } from "../protocol/endpoint.ts";
import { asHoldfastError, HoldfastError, toWireError } from "../protocol/errors.ts";
import { deltaCost, type FrameOf } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import { socketLink } from "../protocol/link.ts";
import type { MethodName, Params, Result } from "../protocol/methods.ts";
import { HELPER_PIN } from "../protocol/pin.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { directoryModes, type SandboxPaths } from "./sandboxes/directory.ts";
import type { Applied, Store } from "./store/store.ts";
import { closeServer, listenOn } from "./unix-server.ts";

/** After so many delta bytes the bridge is told that they were taken. */
const CONSUMED_STEP_BYTES = LIMITS.windowBytes / 8;

export interface SandboxLinkOptions {
  sandboxId: string;
  paths: SandboxPaths;
  token: string;
  store: Store;
  clock: Clock;
  /** Whoever listens there gives way. */
  takeOver: boolean;
  /** Turns of which nothing has been sent yet: they have nothing to lose with a bridge's journal. */
  unsent: ReadonlySet<string>;
  onUp(): void;
  /** The link is gone, or the bridge that dialled was refused (then with the reason). */
  onDown(cause: HoldfastError | null): void;
  /** Events that have just become durable here. */
  onApplied(applied: Applied): void;
  onLost(lost: ReadonlyArray<{ turn: string; settlement: Settlement }>): void;
  onText(frames: ReadonlyArray<FrameOf<"delta"> | FrameOf<"snapshot">>): void;
}

export interface SandboxLink {
  isUp(): boolean;
  /** Milliseconds since the bridge was heard on this link: the age of its heartbeat. Null when it is not up. */
  silentMs(): number | null;
  /** Rejects with LINK_CLOSED, LINK_TIMEOUT, or what the bridge answered. */
  request<M extends MethodName>(method: M, params: Params<M>, limitMs?: number): Promise<Result<M>>;
  close(): Promise<void>;
}

export async function openSandboxLink(options: SandboxLinkOptions): Promise<SandboxLink> {
  const { store, clock, sandboxId } = options;
  const server: Server = await listenOn(options.paths.controllerSocket, directoryModes().file, options);
  const sockets = new WebSocketServer({ server, perMessageDeflate: false, maxPayload: LIMITS.messageBytes });
  let current: Endpoint | null = null;

  function welcome(endpoint: Endpoint, hello: FrameOf<"hello">): void {
    const problem = helloProblem(hello, options);
    if (problem !== null) {
      endpoint.send([{ kind: "refuse", error: toWireError(problem) }]);
      endpoint.close(problem);
      // One who is refused beside a good bridge has nothing to do with that one.
      if (current === null) options.onDown(problem);
      return;
    }
    // A new link discards the old one: frames of a dead bridge may still be in it.
    const old = current;
    current = null;
    old?.close(null);
    const followed = follow(hello);
    if (followed instanceof HoldfastError) {
      endpoint.close(followed);
      return options.onDown(followed);
    }
    const { applied, lost } = followed;
    current = endpoint;
    endpoint.send([{ kind: "welcome", fence: store.fenceOf(sandboxId), applied }]);
    if (lost.length > 0) options.onLost(lost);
    options.onUp();
  }

  function follow(hello: FrameOf<"hello">): ReturnType<Store["follow"]> | HoldfastError {
    try {
      // Nobody else owns the store: it was set back to before the fence that the bridge has seen.
      if (hello.fence > store.fenceOf(sandboxId)) store.raiseFence(sandboxId, hello.fence);
      return store.follow(sandboxId, { ...hello.head, acked: hello.acked }, options.unsent);
    } catch (error) {
      return asHoldfastError(error);
    }
  }

  function accept(socket: WebSocket): void {
    let sawHello = false;
    let takenBytes = 0;
    let toldBytes = 0;
    const endpoint = openEndpoint({
      link: socketLink(socket),
      clock,
      methods: null,
      onFrames(frames) {
        try {
          onFrames(frames);
        } catch (error) {
          endpoint.close(asHoldfastError(error));
        }
      },
      onClose(cause) {
        cancelHandshake();
        if (current === endpoint) {
          current = null;
          options.onDown(cause);
        } else if (!sawHello && current === null && cause?.code === "FRAME_INVALID") {
          // A helper of another version, or none at all: it would dial again for ever.
          const why = `what the bridge says can't be read: ${cause.message}`;
          options.onDown(new HoldfastError("ATTESTATION_FAILED", why));
        }
      },
    });
    const cancelHandshake = clock.after(LIMITS.handshakeMs, () => {
      if (!sawHello) endpoint.close(new HoldfastError("LINK_TIMEOUT", "no hello in time"));
    });

    function onFrames(frames: readonly PassedFrame[]): void {
      const events: Array<FrameOf<"event">["entry"]> = [];
      const texts: Array<FrameOf<"delta"> | FrameOf<"snapshot">> = [];
      for (const frame of frames) {
        if (frame.kind === "hello" && !sawHello) {
          sawHello = true;
          welcome(endpoint, frame);
        } else if (!sawHello) {
          throw new HoldfastError("FRAME_INVALID", "the first frame must be hello");
        } else if (current !== endpoint) {
          return;
        } else if (frame.kind === "event") {
          events.push(frame.entry);
        } else if (frame.kind === "delta" || frame.kind === "snapshot") {
          texts.push(frame);
          takenBytes += deltaCost(frame);
        } else {
          throw new HoldfastError("FRAME_INVALID", `a bridge can't send ${frame.kind}`);
        }
      }
      if (texts.length > 0) options.onText(texts);
      if (takenBytes - toldBytes >= CONSUMED_STEP_BYTES) {
        toldBytes = takenBytes;
        endpoint.send([{ kind: "consumed", bytes: takenBytes }]);
      }
      const last = events.at(-1);
      if (last === undefined) return;
      const applied = store.apply(sandboxId, events);
      endpoint.send([{ kind: "ack", seq: last.seq }]);
      options.onApplied(applied);
    }
  }

  sockets.on("connection", accept);

  return {
    isUp: () => current !== null,
    silentMs: () => current?.silentMs() ?? null,
    request(method, params, limitMs) {
      if (current === null)
        return Promise.reject(new HoldfastError("LINK_CLOSED", "the bridge is not connected"));
      return current.request(method, params, limitMs);
    },
    async close() {
      const old = current;
      current = null;
      old?.close(null);
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await closeServer(server);
    },
  };
}

/** Why the bridge that dialled is not taken, or null. */
function helloProblem(hello: FrameOf<"hello">, options: SandboxLinkOptions): HoldfastError | null {
  const given = Buffer.from(hello.token);
  const own = Buffer.from(options.token);
  if (given.length !== own.length || !timingSafeEqual(given, own)) {
    return new HoldfastError("ATTESTATION_FAILED", "the bridge's token is wrong");
  }
  if (hello.sandboxId !== options.sandboxId) {
    return new HoldfastError("ATTESTATION_FAILED", `the bridge is of sandbox ${hello.sandboxId}`);
  }
  if (hello.pin !== HELPER_PIN) {
    return new HoldfastError(
      "ATTESTATION_FAILED",
      `the bridge says ${hello.pin}, this host needs ${HELPER_PIN}`,
    );
  }
  return null;
}
