// A socket for socketLink that goes nowhere: it keeps what is sent, and the test plays the other side.
import { EventEmitter } from "node:events";
import { decode } from "../../protocol/codec.ts";
import type { Frame } from "../../protocol/frame.ts";
import type { Socket } from "../../protocol/link.ts";

export class FakeSocket extends EventEmitter implements Socket {
  bufferedAmount = 0;
  readonly sent: Uint8Array[] = [];
  /** Each call of close, as [code, reason]. */
  readonly closes: Array<[number, string]> = [];
  terminations = 0;
  /** What every send reports, at once; null means that it went out. */
  sendError: Error | null = null;

  send(bytes: Uint8Array, done: (error?: Error | null) => void): void {
    if (this.sendError === null) this.sent.push(bytes);
    done(this.sendError);
  }

  close(code: number, reason: string): void {
    this.closes.push([code, reason]);
  }

  terminate(): void {
    this.terminations += 1;
  }

  sentFrames(): Frame[] {
    return this.sent.flatMap(decode);
  }

  receive(bytes: unknown, isBinary = true): void {
    this.emit("message", bytes, isBinary);
  }

  fail(error: Error): void {
    this.emit("error", error);
  }

  hangUp(code = 1006): void {
    this.emit("close", code);
  }
}
