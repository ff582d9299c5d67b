/**
 * A stand-in of the container engine on a Unix socket: keeps containers as records and answers as an engine would,
 * unless the test says otherwise. For what the real engine won't play; what it does play is tested on the real one.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { tarOf } from "./tar.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

export interface EngineCall {
  method: string;
  /** Without the API's version. */
  path: string;
  query: URLSearchParams;
  body: unknown;
}

/** A status with a body, or one of the ways to be no engine at all. */
export type EngineReply = { status: number; body?: unknown } | "hang" | "reset" | "half";

export interface FakeContainer {
  id: string;
  name: string;
  create: { Image: string; Labels: Record<string, string>; HostConfig: { Binds: string[] } };
  isRunning: boolean;
  /** Once started it is never "created" again. */
  wasStarted: boolean;
}

export class FakeEngine {
  readonly socketPath: string = join(temporaryDirectory(), "engine.sock");
  readonly calls: EngineCall[] = [];
  readonly containers = new Map<string, FakeContainer>();
  #made = 0;
  readonly files = new Map<string, Buffer>();
  imageId = "sha256:1234";
  /** Mounts of every container beside the first of its binds. */
  mounts: object[] = [];
  imageLabels: Record<string, string> | null = { "dev.holdfast.pin": HELPER_PIN };
  exitCode = 0;
  /** Of every container's writable layer; an engine says null for none. */
  changes: Array<{ Path: string; Kind: number }> | null = null;
  /** Looked at first; undefined leaves the answer to the engine. */
  override: (call: EngineCall) => EngineReply | undefined = () => undefined;

  static async start(): Promise<FakeEngine> {
    const engine = new FakeEngine();
    const server = createServer((request, response) => {
      engine.#serve(request, response).catch((error: unknown) => response.destroy(error as Error));
    });
    server.listen(engine.socketPath);
    await once(server, "listening");
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    return engine;
  }

  /** A file as the engine hands it out: an archive of one entry. */
  putFile(path: string, text: string): void {
    this.files.set(path, tarOf([{ name: "file", type: "0", body: text }]));
  }

  paths(): string[] {
    return this.calls.map(({ method, path }) => `${method} ${path}`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://engine");
    const text = (await buffer(request)).toString();
    const path = url.pathname.replace(/^\/v1\.41(?=\/)/, "");
    const body: unknown = text === "" ? null : JSON.parse(text);
    const call = { method: request.method ?? "", path, query: url.searchParams, body };
    this.calls.push(call);
    const reply = this.override(call) ?? this.#answer(call);
    if (reply === "hang") return;
    if (reply === "reset") return void request.socket.destroy();
    if (reply === "half") {
      response.writeHead(200, { "content-length": "100" }).write("half of");
      return void setImmediate(() => request.socket.destroy());
    }
    response.writeHead(reply.status);
    const given = reply.body ?? "";
    response.end(typeof given === "string" || Buffer.isBuffer(given) ? given : JSON.stringify(given));
  }

  #answer({ method, path, query, body }: EngineCall): EngineReply {
    if (path === "/_ping") return { status: 200, body: "OK" };
    if (path === "/containers/json") return { status: 200, body: this.#listed(query.get("filters") ?? "{}") };
    if (path === "/containers/create") return this.#create(query.get("name") ?? "", body);
    const image = path.match(/^\/images\/(.+)\/json$/);
    if (image !== null) {
      if (image[1] !== this.imageId) return missing("image");
      return { status: 200, body: { Config: { Labels: this.imageLabels } } };
    }
    const [, id = "", step = ""] = path.match(/^\/containers\/([^/]+)\/?(.*)$/) ?? [];
    const container = this.containers.get(id);
    if (container === undefined) return missing("container");
    return this.#ofContainer(container, `${method} ${step}`, query);
  }

  #ofContainer(container: FakeContainer, step: string, query: URLSearchParams): EngineReply {
    switch (step) {
      case "GET json":
        return { status: 200, body: this.inspected(container) };
      case "POST start":
        container.isRunning = true;
        container.wasStarted = true;
        return { status: 204 };
      case "POST stop": {
        const status = container.isRunning ? 204 : 304;
        container.isRunning = false;
        return { status };
      }
      case "DELETE ":
        this.containers.delete(container.id);
        return { status: 204 };
      case "GET archive": {
        const tar = this.files.get(query.get("path") ?? "");
        return tar === undefined ? missing("file") : { status: 200, body: tar };
      }
      case "GET changes":
        return { status: 200, body: JSON.stringify(this.changes) };
      case "GET logs":
        return { status: 200, body: logPiece(1, "a line\n") };
      default:
        return { status: 500, body: { message: `not played: ${step}` } };
    }
  }

  /** What `inspect` says of a container. */
  inspected(container: FakeContainer): Record<string, unknown> {
    const [source = "", destination = "", mode] = (container.create.HostConfig.Binds[0] ?? "").split(":");
    return {
      Id: container.id,
      Image: this.imageId,
      State: { Running: container.isRunning, ExitCode: this.exitCode },
      Mounts: [{ Type: "bind", Source: source, Destination: destination, RW: mode !== "ro" }, ...this.mounts],
      // A container's labels are the image's and its own.
      Config: { Labels: { ...this.imageLabels, ...container.create.Labels } },
    };
  }

  #create(name: string, body: unknown): EngineReply {
    const create = body as FakeContainer["create"];
    if (create.Image !== this.imageId) return missing("image");
    if ([...this.containers.values()].some((other) => other.name === name))
      return { status: 409, body: { message: "the name is in use" } };
    const id = `c${this.#made + 1}`;
    this.#made += 1;
    this.containers.set(id, { id, name, create, isRunning: false, wasStarted: false });
    return { status: 201, body: { Id: id, Warnings: [] } };
  }

  #listed(filters: string): unknown {
    const { label = [] } = JSON.parse(filters) as { label?: string[] };
    return [...this.containers.values()]
      .filter(({ create }) =>
        label.every((wanted) => {
          const [name = "", value] = wanted.split("=");
          return value === undefined ? name in create.Labels : create.Labels[name] === value;
        }),
      )
      .map(({ id, create, isRunning, wasStarted }) => ({
        Id: id,
        Labels: create.Labels,
        State: isRunning ? "running" : wasStarted ? "exited" : "created",
      }));
  }
}

function missing(what: string): EngineReply {
  return { status: 404, body: { message: `no such ${what}` } };
}

/** A piece of a log as the engine sends it: the stream's number, a length, the text. */
export function logPiece(stream: number, text: string): Buffer {
  const head = Buffer.alloc(8);
  head[0] = stream;
  head.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([head, Buffer.from(text)]);
}
