// An HTTP proxy for tests: opens tunnels and passes plain requests on, or does what the test says in their place.
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";

export interface HttpProxy {
  readonly url: URL;
  /** `CONNECT host:port` or `POST http://…`, in order. */
  readonly asked: string[];
  /** What came with them. */
  readonly headers: Array<IncomingMessage["headers"]>;
  /** Connections that are open now. */
  openSockets(): number;
}

/** @param refuse in the place of a tunnel or a request; it may answer, or be silent */
export async function startHttpProxy(
  refuse?: (answer: { tunnel: Socket } | { plain: ServerResponse }) => void,
): Promise<HttpProxy> {
  const asked: string[] = [];
  const headers: HttpProxy["headers"] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
  };
  const server = createServer((inbound, response) => {
    asked.push(`${inbound.method} ${inbound.url}`);
    headers.push(inbound.headers);
    if (refuse !== undefined) return refuse({ plain: response });
    const onward = request(
      inbound.url ?? "",
      { method: inbound.method, headers: inbound.headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
      },
    );
    inbound.pipe(onward);
  });
  server.on("connection", keep);
  server.on("connect", (inbound: IncomingMessage, socket: Socket) => {
    asked.push(`CONNECT ${inbound.url}`);
    headers.push(inbound.headers);
    // Node lets a server's side stay half open, and sees the client's going only when somebody reads.
    socket.once("end", () => socket.destroy());
    if (refuse !== undefined) {
      socket.resume();
      return refuse({ tunnel: socket });
    }
    const [host = "", port = ""] = (inbound.url ?? "").split(":");
    const onward = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(onward).pipe(socket);
    });
    keep(onward);
    socket.once("close", () => onward.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: new URL(`http://127.0.0.1:${port}`), asked, headers, openSockets: () => sockets.size };
}
