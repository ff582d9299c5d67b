/**
 * The bridge's side of the link: dials the controller's Unix socket, shakes hands, and dials again with back-off when
 * the link ends. One link at a time; a new one closes and discards the old. One of the two importers of ws.
 *
 *   dial ─▶ hello ─▶ welcome: journal the fence, then open the outbox from the controller's cursor
 *                 └▶ refuse | silence | fault: close, wait, dial again
 */
import { WebSocket } from "ws";
import { type Backoff, nextWait } from "../protocol/backoff.ts";
import type { Clock } from "../protocol/clock.ts";
import { type Endpoint, openEndpoint, type PassedFrame } from "../protocol/endpoint.ts";
import { asHoldfastError, fromWireError, HoldfastError } from "../protocol/errors.ts";
import type { FrameOf } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import { socketLink } from "../protocol/link.ts";
import type { MethodTable } from "../protocol/methods.ts";
import { HELPER_PIN } from "../protocol/pin.ts";
import type { Journal } from "./journal.ts";
import type { Log } from "./log.ts";
import type { Outbox } from "./outbox.ts";

export interface LinkClientOptions {
  socketPath: string;
  sandboxId: string;
  token: string;
  journal: Journal;
  outbox: Outbox;
  methods: MethodTable;
  clock: Clock;
  log: Log;
  chance?: () => number;
}

export interface LinkClient {
  /** There may be something to send; sent once the current turn of the event loop is over, so reads are batched. */
  wake(): void;
  stop(): void;
}

/** Methods that need no take-over by a controller; everything else is refused before the welcome. */
export function startLinkClient(options: LinkClientOptions): LinkClient {
  const { journal, outbox, clock, log } = options;
  const chance = options.chance ?? Math.random;
  let backoff: Backoff = { tries: 0 };
  let current: Endpoint | null = null;
  let isTaken = false;
  let taking: Promise<void> | null = null;
  let isStopped = false;
  let cancelWait: () => void = () => undefined;
  let cancelFlush: (() => void) | null = null;

  function flush(): void {
    cancelFlush = null;
    if (current === null || !isTaken) return;
    const frames = outbox.flush();
    for (let at = 0; at < frames.length; at += LIMITS.framesPerMessage) {
      current.send(frames.slice(at, at + LIMITS.framesPerMessage));
    }
  }

  function wake(): void {
    if (isTaken) cancelFlush ??= clock.afterPoll(flush);
  }

  function dial(): void {
    if (isStopped) return;
    // Compression costs more than it saves on a Unix socket.
    const socket = new WebSocket(`ws+unix:${options.socketPath}:/`, {
      perMessageDeflate: false,
      handshakeTimeout: LIMITS.handshakeMs,
      maxPayload: LIMITS.messageBytes,
    });
    let openedMs = 0;
    const again = (lastedMs: number) => {
      if (isStopped) return;
      const next = nextWait(
        backoff,
        {
          firstMs: LIMITS.reconnectFirstMs,
          longestMs: LIMITS.reconnectLongestMs,
          stableMs: LIMITS.reconnectStableMs,
        },
        lastedMs,
        chance(),
      );
      backoff = next.state;
      cancelWait = clock.after(next.waitMs, dial);
    };
    socket.once("open", () => {
      openedMs = clock.monotonicMs();
      socket.off("error", onDialError);
      talk(socket, () => again(clock.monotonicMs() - openedMs));
    });
    const onDialError = () => again(0);
    socket.once("error", onDialError);
  }

  function talk(socket: WebSocket, onEnd: () => void): void {
    const endpoint = openEndpoint({
      link: socketLink(socket),
      clock,
      methods: guarded(),
      onFrames: (frames) => {
        for (const frame of frames) onFrame(endpoint, frame);
      },
      onClose(cause) {
        cancelHandshake();
        if (current === endpoint) {
          current = null;
          isTaken = false;
          outbox.close();
          log.info("link closed", { cause: cause?.code ?? null });
        }
        onEnd();
      },
    });
    const cancelHandshake = clock.after(LIMITS.handshakeMs, () => {
      if (!isTaken || current !== endpoint)
        endpoint.close(new HoldfastError("LINK_TIMEOUT", "no welcome in time"));
    });
    current = endpoint;
    const { journalId, epoch, head } = journal.state;
    endpoint.send([
      {
        kind: "hello",
        pin: HELPER_PIN,
        sandboxId: options.sandboxId,
        token: options.token,
        head: { journalId, epoch, seq: head },
      },
    ]);
  }

  /** Nothing is answered before a controller with a sufficient fence has taken the link. */
  function guarded(): MethodTable {
    const table: Record<string, unknown> = {};
    for (const [name, run] of Object.entries(options.methods)) {
      table[name] = async (params: never) => {
        // The fence of a welcome that came just before may still be on its way to the disk.
        await taking;
        if (!isTaken) throw new HoldfastError("FENCED", "the link was not taken over yet");
        return (run as (params: never) => Promise<unknown>)(params);
      };
    }
    return table as unknown as MethodTable;
  }

  function onFrame(endpoint: Endpoint, frame: PassedFrame): void {
    switch (frame.kind) {
      case "welcome":
        return takeOver(endpoint, frame);
      case "refuse":
        log.warn("the controller refused the link", { code: frame.error.code });
        return endpoint.close(fromWireError(frame.error));
      case "ack":
        outbox.acknowledged(frame.seq);
        journal.acknowledge(frame.seq);
        return wake();
      case "consumed":
        outbox.consumed(frame.bytes);
        return wake();
      case "hello":
      case "event":
      case "delta":
      case "snapshot":
        return endpoint.close(new HoldfastError("FRAME_INVALID", `a controller can't send ${frame.kind}`));
      default: {
        const never: never = frame;
        throw new TypeError(`frame ${String(never)} is not handled`);
      }
    }
  }

  function takeOver(endpoint: Endpoint, welcome: FrameOf<"welcome">): void {
    if (isTaken && current === endpoint) {
      return endpoint.close(new HoldfastError("FRAME_INVALID", "a link is taken over once"));
    }
    taking = journal.takeFence(welcome.fence).then(
      () => {
        if (current !== endpoint) return;
        isTaken = true;
        outbox.open(welcome.applied);
        log.info("link taken over", { fence: welcome.fence, applied: welcome.applied });
        flush();
      },
      (error: unknown) => endpoint.close(asHoldfastError(error)),
    );
  }

  dial();
  return {
    wake,
    stop() {
      isStopped = true;
      cancelWait();
      cancelFlush?.();
      current?.close(null);
    },
  };
}
