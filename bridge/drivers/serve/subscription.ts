/**
 * One live connection to the server's event stream, numbered and never resumed: what was missed can't be had again.
 *
 * It knows when it is lost (the end, clean or not; no byte within the limit; the instance disposed; an event that can't
 * be read) and hands on what it reads. Heartbeats, comments included, count as bytes and as nothing else.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { type Clock, watchSilence } from "../../../protocol/clock.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { createSseReader } from "../../sse-reader.ts";
import type { LoopbackServer } from "./loopback-http.ts";
import { type NativeEvent, readNativeEvent } from "./native-event.ts";

export interface Subscription {
  readonly number: number;
  /** Events read so far; the sequence of evidence. */
  sequence(): number;
  isLive(): boolean;
  /** Lets go of it on purpose; `onLost` is not called. */
  close(): void;
  /** Gives it up as lost, for a reason that only its user can see. */
  fail(reason: string): void;
}

export interface SubscriptionOptions {
  http: LoopbackServer;
  directory: string;
  number: number;
  clock: Clock;
  /** From the request to the server's own "connected". */
  openMs: number;
  silenceMs: number;
  onEvent(event: NativeEvent, sequence: number): void;
  /** Called once, when it is lost after it was open. */
  onLost(reason: string): void;
}

/** Resolves when the server has said "connected": that proves nothing yet, the canary does. Throws STREAM_LOST. */
export function openSubscription(options: SubscriptionOptions): Promise<Subscription> {
  const { clock, number } = options;
  let state: "opening" | "live" | "over" = "opening";
  let sequence = 0;
  const reader = createSseReader();
  const request: ClientRequest = options.http.open(
    `/event?directory=${encodeURIComponent(options.directory)}`,
  );
  const watch = watchSilence(clock, options.silenceMs, (ms) => end(`no byte for ${Math.round(ms)} ms`));
  let settleOpen: (error: HoldfastError | null) => void = () => undefined;

  function end(reason: string | null): void {
    if (state === "over") return;
    const wasLive = state === "live";
    state = "over";
    watch.stop();
    request.destroy();
    if (!wasLive) settleOpen(new HoldfastError("STREAM_LOST", reason ?? "closed"));
    else if (reason !== null) options.onLost(reason);
  }

  function take(data: string): void {
    if (state === "over") return;
    sequence += 1;
    const read = readNativeEvent(data);
    if (read.kind === "other") return;
    if (read.kind === "broken") return end(read.why);
    const { event } = read;
    if (event.type === "server.connected" && state === "opening") {
      state = "live";
      settleOpen(null);
    } else if (event.type === "server.instance.disposed") {
      end("the server disposed of this directory's instance");
    } else {
      options.onEvent(event, sequence);
    }
  }

  function onResponse(response: IncomingMessage): void {
    if (
      response.statusCode !== 200 ||
      !/^text\/event-stream\b/.test(response.headers["content-type"] ?? "")
    ) {
      end(`the event stream answered ${response.statusCode} ${response.headers["content-type"] ?? ""}`);
      return;
    }
    response.on("data", (bytes: Buffer) => {
      watch.touch();
      try {
        for (const data of reader.feed(bytes)) take(data);
      } catch (error) {
        end(error instanceof Error ? error.message : String(error));
      }
    });
    response.once("end", () => end("the stream ended"));
    response.once("close", () => end("the stream was cut"));
    response.once("error", (error) => end(`the stream broke: ${error.message}`));
  }

  return new Promise((resolve, reject) => {
    const cancelTimer = clock.after(options.openMs, () => end(`not connected within ${options.openMs} ms`));
    settleOpen = (error) => {
      cancelTimer();
      if (error === null)
        resolve({
          number,
          sequence: () => sequence,
          isLive: () => state === "live",
          close: () => end(null),
          fail: (reason) => end(reason),
        });
      else reject(error);
    };
    request.once("response", onResponse);
    // `once` would leave a second error, after the destroy, without a listener.
    request.on("error", (error) =>
      end(`the stream ${state === "live" ? "was cut" : "can't be opened"}: ${error.message}`),
    );
    request.end();
  });
}
