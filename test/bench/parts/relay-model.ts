// A model that answers as the header `x-bench` says, as a program of its own: a short answer, a large one, or a stream
// that goes on until it is closed. A line on standard input makes it tell when its connections were closed.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { nowNs } from "./record.ts";
import type { Closes, Order } from "./relay-words.ts";

const PIECE_MS = 20;
const sse = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const closes: Closes = {};
/** Events of about 400 bytes each, as a model that streams sends them. */
const PIECE = Buffer.from(
  sse({ id: "chatcmpl-1", model: "m1", choices: [{ index: 0, delta: { content: "x".repeat(300) } }] }).repeat(
    160,
  ),
);

function large(response: ServerResponse, bytes: number): void {
  let left = bytes;
  const write = () => {
    while (left > 0) {
      const piece = left < PIECE.length ? PIECE.subarray(0, left) : PIECE;
      left -= piece.length;
      if (!response.write(piece)) return void response.once("drain", write);
    }
    response.end();
  };
  write();
}

function stream(
  request: IncomingMessage,
  response: ServerResponse,
  order: Extract<Order, { kind: "stream" }>,
): void {
  response.write(sse({ id: "chatcmpl-1", model: "m1", choices: [{ delta: { content: "one" } }] }));
  const pieces = setInterval(
    () => response.write(sse({ choices: [{ delta: { content: "more" } }] })),
    PIECE_MS,
  );
  const end =
    order.endsMs === null
      ? null
      : setTimeout(() => {
          clearInterval(pieces);
          response.write(sse({ choices: [{ delta: {}, finish_reason: "stop" }] }));
          response.write(
            sse({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 } }),
          );
          response.end("data: [DONE]\n\n");
        }, order.endsMs);
  response.once("close", () => {
    clearInterval(pieces);
    if (end !== null) clearTimeout(end);
    closes[order.id] = nowNs();
    request.destroy();
  });
}

const server = createServer((request, response) => {
  const order = JSON.parse(String(request.headers["x-bench"])) as Order;
  request.resume().on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (order.kind === "short") response.end(sse({ choices: [{ delta: { content: "short" } }] }));
    else if (order.kind === "large") large(response, order.bytes);
    else stream(request, response, order);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () =>
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1\n`),
);
createInterface({ input: process.stdin }).on("line", () =>
  process.stdout.write(`${JSON.stringify(closes)}\n`),
);
