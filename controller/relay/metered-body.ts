/**
 * A request whose tokens are counted before it goes out: its whole body is taken first, within the relay's limits. (All
 * others pass as they come.)
 */
import type { IncomingMessage } from "node:http";
import { type Clock, watchSilence } from "../../protocol/clock.ts";
import type { ModelProtocol } from "../../protocol/model-protocol.ts";
import type { RelayLimits } from "./limits.ts";
import { purposeOf } from "./model-call.ts";
import type { RefusalName } from "./refusal.ts";

/** All that may make a model answer, on whatever path. To look something up or to have tokens counted costs none. */
export function mayCost(protocol: ModelProtocol, method: string, path: string): boolean {
  return method !== "GET" && method !== "HEAD" && purposeOf(protocol, method, path) !== "count_tokens";
}

/** The body; or why there is none: a refusal, or null for a client that has gone. Never rejects. */
export function wholeBody(
  inbound: IncomingMessage,
  limits: Pick<RelayLimits, "requestBytes" | "idleMs" | "totalMs">,
  clock: Clock,
): Promise<Buffer | RefusalName | null> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const silence = watchSilence(clock, limits.idleMs, () => end("call_too_long"));
    const stopTotal = clock.after(limits.totalMs, () => end("call_too_long"));

    function end(result: Buffer | RefusalName | null): void {
      silence.stop();
      stopTotal();
      chunks.length = 0;
      // What still comes is nobody's.
      inbound.resume();
      resolve(result);
    }

    inbound.on("data", (chunk: Buffer) => {
      silence.touch();
      bytes += chunk.length;
      if (bytes > limits.requestBytes) end("body_too_large");
      else chunks.push(chunk);
    });
    inbound.once("end", () => end(Buffer.concat(chunks)));
    inbound.on("error", () => undefined /* its close is looked at */);
    inbound.once("close", () => end(null));
  });
}
