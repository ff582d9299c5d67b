/**
 * The thread with the connection: takes letters one by one, answers each, and makes a new connection behind one that was
 * lost. It never waits for anything but the server, so that "there is no connection" is answered at once.
 */
import { workerData } from "node:worker_threads";
import { createConnection } from "./connection.ts";
import type { Answer, Letter, ThreadOptions } from "./messages.ts";

const { connection: options, port, answered } = workerData as ThreadOptions;
const connection = createConnection(options);

port.on("message", (letter: Letter) => {
  if (letter.id === null) return connection.abandon();
  const { id, request } = letter;
  const reply = (answer: Answer) => {
    port.postMessage({ id, answer });
    Atomics.add(answered, 0, 1);
    Atomics.notify(answered, 0);
    if (request.kind === "close") port.close();
  };
  void connection.ask(request).then(reply);
});
