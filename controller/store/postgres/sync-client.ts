/**
 * A connection to a PostgreSQL server that is used synchronously, as the store's contract asks for: it lives in a thread of
 * its own, and this thread sleeps until the answer is there. Every wait has a limit; an answer that comes behind it is
 * read past, and the connection it would have come from is thrown away.
 *
 *   this thread                          connection thread
 *   letter ──────────────────────────▶   statement to the server
 *   Atomics.wait(answered) ◀─────────    answer to the port, then Atomics.notify
 *   receiveMessageOnPort
 */
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { Answer, ConnectionOptions, Letter, Request, ThreadOptions } from "./messages.ts";

export interface SyncClient {
  /** Never throws for what the server or the connection does. @param limitMs that this thread sleeps at most */
  ask(request: Request, limitMs: number): Answer;
  /** Lets the connection go. May be repeated. */
  close(): void;
}

/** For the goodbye; a server that hangs is left without one. */
const CLOSE_MS = 1000;

export function startSyncClient(connection: ConnectionOptions): SyncClient {
  const { port1: port, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: ThreadOptions = { connection, port: port2, answered };
  // Without our own flags: those of an evaluated text, or of a loader, would be taken for the thread's program too.
  const worker = new Worker(new URL("./main.ts", import.meta.url), {
    workerData,
    transferList: [port2],
    execArgv: [],
  });
  let lastId = 0;
  let isClosed = false;
  let death: string | null = null;
  worker.on("error", (error) => {
    death = error.message;
  });
  worker.on("exit", () => {
    death ??= "it ended";
  });
  // A store that somebody forgot to close keeps no program from ending.
  worker.unref();
  port.unref();

  const send = (letter: Letter) => port.postMessage(letter);

  function ask(request: Request, limitMs: number): Answer {
    if (isClosed) return { ok: false, fault: { kind: "absent", code: "", message: "the store is closed" } };
    if (death !== null)
      return { ok: false, fault: { kind: "absent", code: "", message: `its thread is gone: ${death}` } };
    lastId += 1;
    send({ id: lastId, request });
    const until = performance.now() + limitMs;
    for (;;) {
      const seen = Atomics.load(answered, 0);
      const answer = received(lastId);
      if (answer !== null) return answer;
      const left = until - performance.now();
      if (left <= 0) break;
      Atomics.wait(answered, 0, seen, left);
    }
    send({ id: null, abandon: true });
    const message = `no answer within ${limitMs} ms`;
    return { ok: false, fault: { kind: "timeout", code: "", message } };
  }

  /** Older ones are of questions that nobody waits for any more. */
  function received(id: number): Answer | null {
    for (;;) {
      const found = receiveMessageOnPort(port) as { message: { id: number; answer: Answer } } | undefined;
      if (found === undefined) return null;
      if (found.message.id === id) return found.message.answer;
    }
  }

  return {
    ask,
    close() {
      if (isClosed) return;
      ask({ kind: "close" }, CLOSE_MS);
      isClosed = true;
      port.close();
      // It ends by itself; one that hangs does not.
      void worker.terminate();
    },
  };
}
