// A controller's end of the link for tests: a real WebSocket server on a Unix socket, which does what the test says.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { decode, encodeAll } from "../../protocol/codec.ts";
import { deltaCost, type Frame, type FrameKind, type FrameOf } from "../../protocol/frame.ts";
import type { MethodName } from "../../protocol/methods.ts";
import { until } from "./until.ts";

/** One link of a bridge, as the controller sees it. */
export class LinkPeer {
  readonly frames: Frame[] = [];
  closeCode: number | null = null;
  /** What a controller would have applied: events in order, texts of parts. */
  applied = 0;
  readonly parts = new Map<string, string>();
  consumedBytes = 0;
  /** Acknowledges each event as it comes. */
  acknowledges = false;
  #requests = 0;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (bytes: Buffer) => {
      for (const frame of decode(bytes)) this.#take(frame);
    });
    socket.on("close", (code) => {
      this.closeCode = code;
    });
    socket.on("error", () => undefined);
  }

  #take(frame: Frame): void {
    if (frame.kind === "event") {
      if (frame.entry.seq !== this.applied + 1)
        throw new Error(`event ${frame.entry.seq} after ${this.applied}`);
      this.applied = frame.entry.seq;
      if (this.acknowledges) this.send({ kind: "ack", seq: frame.entry.seq });
    } else if (frame.kind === "delta" || frame.kind === "snapshot") {
      const before = frame.kind === "snapshot" ? "" : (this.parts.get(frame.part) ?? "");
      if (frame.kind === "delta" && frame.offset !== before.length)
        throw new Error(`delta at ${frame.offset}`);
      this.parts.set(frame.part, before + frame.text);
      this.consumedBytes += deltaCost(frame);
    } else if (frame.kind === "ping") this.send({ kind: "pong", n: frame.n });
    this.frames.push(frame);
  }

  send(...frames: Frame[]): void {
    for (const bytes of encodeAll(frames)) this.#socket.send(bytes);
  }

  sendRaw(bytes: Uint8Array | string): void {
    this.#socket.send(bytes);
  }

  of<K extends FrameKind>(kind: K): Array<FrameOf<K>> {
    return this.frames.filter((frame): frame is FrameOf<K> => frame.kind === kind);
  }

  hello(): Promise<FrameOf<"hello">> {
    return until("the hello", () => this.of("hello")[0]);
  }

  welcome(fence = 1, applied = 0): void {
    this.applied = applied;
    this.send({ kind: "welcome", fence, applied });
  }

  /** The answer to a request: its result, or the code of its error. */
  async request(method: MethodName, params: unknown): Promise<unknown> {
    const id = ++this.#requests;
    this.send({ kind: "request", id, method, params });
    const answer = await until(`the answer to ${method}`, () =>
      this.of("response").find((frame) => frame.id === id),
    );
    return answer.error === null ? answer.result : answer.error.code;
  }

  closed(): Promise<number> {
    return until("the close", () => this.closeCode);
  }

  terminate(): void {
    this.#socket.terminate();
  }
}

export class LinkServer {
  readonly peers: LinkPeer[] = [];
  readonly #path: string;
  #http: Server | null = null;
  #sockets: WebSocketServer | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async listen(): Promise<this> {
    const http = createServer();
    const sockets = new WebSocketServer({ server: http, perMessageDeflate: false });
    sockets.on("connection", (socket) => this.peers.push(new LinkPeer(socket)));
    http.listen(this.#path);
    await once(http, "listening");
    this.#http = http;
    this.#sockets = sockets;
    return this;
  }

  async close(): Promise<void> {
    const http = this.#http;
    if (http === null) return;
    this.#http = null;
    for (const socket of this.#sockets?.clients ?? []) socket.terminate();
    this.#sockets?.close();
    await new Promise((resolve) => http.close(resolve));
  }

  /** The next link that is made from here on, or the one at this place in the order. */
  peer(at: number): Promise<LinkPeer> {
    return until(`link ${at}`, () => this.peers[at]);
  }
}
