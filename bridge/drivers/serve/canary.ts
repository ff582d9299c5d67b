/**
 * A canary: a nonce that goes out through the server's own publish endpoint and must come back on the event stream. It is
 * sent again until the limit, since a server may attach a subscriber a while after it has said "connected".
 */
import { randomUUID } from "node:crypto";
import { type Clock, watchSilence } from "../../../protocol/clock.ts";
import { HoldfastError } from "../../../protocol/errors.ts";

/** Between one sending and the next of the same canary. */
const AGAIN_MS = 500;

export interface Canary {
  /** Resolves with the sequence number at which it came back. Rejects with GATE_FAILED at the limit or at a loss. */
  send(limitMs: number): Promise<number>;
  /** True when the message was a canary of ours. */
  returned(message: string, sequence: number): boolean;
  /** The stream that would bring it is gone. */
  lost(reason: string): void;
}

interface Flight {
  resolve(sequence: number): void;
  reject(error: HoldfastError): void;
}

export function createCanary(options: {
  clock: Clock;
  publish(nonce: string, limitMs: number): Promise<void>;
}): Canary {
  const { clock } = options;
  const flights = new Map<string, Flight>();

  return {
    send(limitMs) {
      const nonce = `holdfast-canary-${randomUUID()}`;
      let problem = "";
      let cancelAgain: () => void = () => undefined;
      let stopWatch: () => void = () => undefined;
      const flight = new Promise<number>((resolve, reject) => {
        flights.set(nonce, { resolve, reject });
        // Judged after one more poll: after a freeze of the process the canary may be waiting to be read.
        stopWatch = watchSilence(clock, limitMs, () =>
          reject(
            new HoldfastError("GATE_FAILED", `the canary did not come back within ${limitMs} ms${problem}`),
          ),
        ).stop;
      });
      const publish = () => {
        options.publish(nonce, limitMs).catch((error: unknown) => {
          problem = ` (publishing: ${error instanceof Error ? error.message : String(error)})`;
        });
        cancelAgain = clock.after(AGAIN_MS, publish);
      };
      publish();
      return flight.finally(() => {
        cancelAgain();
        stopWatch();
        flights.delete(nonce);
      });
    },
    returned(message, sequence) {
      // One that came back twice is still ours, and nobody's news.
      if (!message.startsWith("holdfast-canary-")) return false;
      flights.get(message)?.resolve(sequence);
      return true;
    },
    lost(reason) {
      for (const { reject } of flights.values()) {
        reject(new HoldfastError("GATE_FAILED", `the stream was lost: ${reason}`));
      }
    },
  };
}
