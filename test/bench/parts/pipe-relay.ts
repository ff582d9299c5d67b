// The bare pipe's middle, as a program of its own: event stream in, parse, envelope, WebSocket over a Unix socket out.
// No journal, no gate, no state: what the same hop costs when nothing is promised.
//   node pipe-relay.ts PORT SOCKET each|batch
import { get } from "node:http";
import { createParser } from "eventsource-parser";
import { WebSocket } from "ws";

/** What goes to the client; `batch` sends a list of them for each read, `each` one a message. */
export interface Envelope {
  seq: number;
  at: number;
  event: { type: string; properties: { delta?: string } };
}

function relay(port: number, socketPath: string, isBatched: boolean): void {
  const socket = new WebSocket(`ws+unix:${socketPath}:/`, { perMessageDeflate: false });
  const decoder = new TextDecoder();
  let ready: Envelope[] = [];
  let seq = 0;
  const parser = createParser({
    onEvent(event) {
      seq += 1;
      ready.push({ seq, at: Date.now(), event: JSON.parse(event.data) as Envelope["event"] });
    },
  });
  socket.once("open", () => {
    get({ host: "127.0.0.1", port, path: "/event", agent: false }, (response) => {
      response.on("data", (bytes: Buffer) => {
        parser.feed(decoder.decode(bytes, { stream: true }));
        if (isBatched) socket.send(JSON.stringify(ready));
        else for (const envelope of ready) socket.send(JSON.stringify(envelope));
        ready = [];
      });
      process.stdout.write("ready\n");
    });
  });
  socket.once("close", () => process.exit(0));
}

if (import.meta.main) {
  const [port = "", socketPath = "", mode = ""] = process.argv.slice(2);
  relay(Number(port), socketPath, mode === "batch");
}
