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
  /** A controller has taken the link. */
  isTaken(): boolean;
  stop(): void;
}

/** One link, from its hello on. */
interface Talk {
  endpoint: Endpoint;
  /** A welcome came; settles when its fence is on the disk, or was refused. */
  taking: Promise<void> | null;
  isTaken: boolean;
}

export function startLinkClient(options: LinkClientOptions): LinkClient {
  const { journal, outbox, clock, log } = options;
  const chance = options.chance ?? Math.random;
  let backoff: Backoff = { tries: 0 };
  let dialling: WebSocket | null = null;
  let current: Talk | null = null;
  let isStopped = false;
  let cancelWait: () => void = () => undefined;
  let cancelFlush: (() => void) | null = null;

  function flush(): void {
    cancelFlush = null;
    if (!current?.isTaken) return;
    const { endpoint } = current;
    const frames = outbox.flush();
    for (let at = 0; at < frames.length; at += LIMITS.framesPerMessage) {
      endpoint.send(frames.slice(at, at + LIMITS.framesPerMessage));
    }
  }

  function wake(): void {
    if (current?.isTaken) cancelFlush ??= clock.afterPoll(flush);
  }

  function dial(): void {
    if (isStopped) return;
    // Compression costs more than it saves on a Unix socket.
    const socket = new WebSocket(`ws+unix:${options.socketPath}:/`, {
      perMessageDeflate: false,
      // Masks protect proxies from what a browser's script sends; on a Unix socket they only cost both sides a pass.
      generateMask: (mask) => mask.fill(0),
      handshakeTimeout: LIMITS.handshakeMs,
      maxPayload: LIMITS.messageBytes,
    });
    dialling = socket;
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
      dialling = null;
      talk(socket, () => again(clock.monotonicMs() - openedMs));
    });
    const onDialError = () => again(0);
    socket.once("error", onDialError);
  }

  function talk(socket: WebSocket, onEnd: () => void): void {
    const endpoint = openEndpoint({
      link: socketLink(socket),
      clock,
      methods: guarded(() => mine),
      onFrames: (frames) => {
        for (const frame of frames) onFrame(mine, frame);
      },
      onClose(cause) {
        cancelHandshake();
        mine.isTaken = false;
        current = null;
        outbox.close();
        log.info("link closed", { cause: cause?.code ?? null });
        onEnd();
      },
    });
    const mine: Talk = { endpoint, taking: null, isTaken: false };
    // A welcome may wait to be read while a late timer fires (law 13).
    let cancelHandshake = clock.after(LIMITS.handshakeMs, () => {
      cancelHandshake = clock.afterPoll(() => {
        if (!mine.isTaken) endpoint.close(new HoldfastError("LINK_TIMEOUT", "no welcome in time"));
      });
    });
    current = mine;
    const { journalId, epoch, head, acked, fence } = journal.state;
    endpoint.send([
      {
        kind: "hello",
        pin: HELPER_PIN,
        sandboxId: options.sandboxId,
        token: options.token,
        head: { journalId, epoch, seq: head },
        acked,
        fence,
      },
    ]);
  }

  /** Nothing is answered before a controller with a sufficient fence has taken this very link. */
  function guarded(talkNow: () => Talk): MethodTable {
    const table: Record<string, unknown> = {};
    for (const [name, run] of Object.entries(options.methods)) {
      table[name] = async (params: never) => {
        // The fence of a welcome that came just before may still be on its way to the disk.
        await talkNow().taking;
        if (!talkNow().isTaken) throw new HoldfastError("FENCED", "the link was not taken over yet");
        return (run as (params: never) => Promise<unknown>)(params);
      };
    }
    return table as unknown as MethodTable;
  }

  function onFrame(mine: Talk, frame: PassedFrame): void {
    const fault = (text: string) => mine.endpoint.close(new HoldfastError("FRAME_INVALID", text));
    switch (frame.kind) {
      case "welcome":
        return mine.taking === null ? takeOver(mine, frame) : fault("a link is taken over once");
      case "refuse":
        log.warn("the controller refused the link", { code: frame.error.code });
        return mine.endpoint.close(fromWireError(frame.error));
      case "ack":
        // From anybody else, or of more than there is, it would drop what nobody has.
        if (!mine.isTaken || frame.seq > journal.state.head)
          return fault(`nothing to acknowledge at ${frame.seq}`);
        outbox.acknowledged(frame.seq);
        journal.acknowledge(frame.seq);
        return wake();
      case "consumed":
        if (!mine.isTaken) return fault("nothing was sent that could be consumed");
        outbox.consumed(frame.bytes);
        return wake();
      case "hello":
      case "event":
      case "delta":
      case "snapshot":
        return fault(`a controller can't send ${frame.kind}`);
      default: {
        const never: never = frame;
        throw new TypeError(`frame ${String(never)} is not handled`);
      }
    }
  }

  function takeOver(mine: Talk, welcome: FrameOf<"welcome">): void {
    mine.taking = journal.takeFence(welcome.fence).then(
      () => {
        if (current !== mine) return;
        mine.isTaken = true;
        outbox.open(Math.min(welcome.applied, journal.state.head));
        log.info("link taken over", { fence: welcome.fence, applied: welcome.applied });
        flush();
      },
      (error: unknown) => mine.endpoint.close(asHoldfastError(error)),
    );
  }

  dial();
  return {
    wake,
    isTaken: () => current?.isTaken ?? false,
    stop() {
      isStopped = true;
      cancelWait();
      cancelFlush?.();
      dialling?.terminate();
      current?.endpoint.close(null);
    },
  };
}
