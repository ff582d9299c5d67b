// Bench 4: what one bridge costs: from its spawn to its hello at the controller's socket, and its memory at rest.
// Baseline: node itself, with nothing to do.
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { type WebSocket, WebSocketServer } from "ws";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { decode, encode } from "../../protocol/codec.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { endChild, memoryOf, startSilent } from "./children.ts";
import { differences } from "./figures.ts";

/** After the hello, before its memory is read: what starting up has left is collected or not by then. */
const REST_MS = 500;

interface Listener {
  directory: string;
  /** Resolves when a bridge has said hello and was welcomed. */
  hello(): Promise<void>;
}

async function listen(context: BenchContext): Promise<Listener> {
  const directory = join(context.directory, "b");
  for (const name of ["state", "slots", "workspace"]) {
    await mkdir(join(directory, name), { recursive: true, mode: 0o700 });
  }
  const config: BridgeConfig = {
    storeId: "bench",
    sandboxId: "bench",
    isolation: "process",
    controllerSocket: join(directory, "ctl.sock"),
    modelSocket: join(directory, "model.sock"),
    tokenFile: join(directory, "token"),
    stateDirectory: join(directory, "state"),
    slotsDirectory: join(directory, "slots"),
    workspace: join(directory, "workspace"),
    users: null,
    clis: [{ cli: "opencode", version: "1", command: ["/bin/false"] }],
    limits: DEFAULT_LIMITS,
  };
  await writeFile(join(directory, "bridge.json"), JSON.stringify(config));
  await writeFile(config.tokenFile, "0".repeat(64));
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  server.listen(config.controllerSocket);
  await once(server, "listening");
  context.scope.defer(async () => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    await new Promise((resolve) => server.close(resolve));
  });
  let fence = 0;
  return {
    directory,
    async hello() {
      const [socket] = (await once(sockets, "connection")) as [WebSocket];
      const [bytes] = (await once(socket, "message")) as [Buffer];
      const [frame] = decode(bytes);
      if (frame?.kind !== "hello") throw new Error(`the bridge began with ${frame?.kind}`);
      fence += 1;
      socket.send(encode([{ kind: "welcome", fence, applied: 0 }]));
    },
  };
}

async function measure(context: BenchContext) {
  const { isQuick, scope, node, say } = context;
  const listener = await listen(context);
  const startBridge = () =>
    startSilent({ scope, command: [node, context.bridgePath, join(listener.directory, "bridge.json")] });

  const ready: number[] = [];
  const bare: number[] = [];
  const starts = isQuick ? 7 : 20;
  say(`bridge: ${starts} starts`);
  // The first of each is not counted: the files come from the disk then.
  for (let at = -1; at < starts; at += 1) {
    const hello = listener.hello();
    let beganMs = performance.now();
    const child = startBridge();
    await hello;
    if (at >= 0) ready.push(performance.now() - beganMs);
    await endChild(child);
    beganMs = performance.now();
    await once(startSilent({ scope, command: [node, "-e", "0"] }), "exit");
    if (at >= 0) bare.push(performance.now() - beganMs);
  }

  const own = { rss: [] as number[], private: [] as number[] };
  const base = { rss: [] as number[], private: [] as number[] };
  const rests = isQuick ? 3 : 7;
  say(`bridge: memory of ${rests} at rest`);
  for (let at = 0; at < rests; at += 1) {
    const hello = listener.hello();
    const child = startBridge();
    await hello;
    const idle = startSilent({ scope, command: [node, "-e", "setInterval(() => 0, 1000)"] });
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    for (const [kept, { pid }] of [
      [own, child],
      [base, idle],
    ] as const) {
      const { rssMb, privateMb } = memoryOf(pid ?? 0);
      kept.rss.push(rssMb);
      kept.private.push(privateMb);
    }
    await Promise.all([endChild(child), endChild(idle)]);
  }

  return {
    title: "the bridge's start and memory",
    figures: [
      { what: "bridge, spawn to hello", unit: "ms", values: ready, aim: { atMost: 150 } },
      { what: "node -e 0, spawn to exit", unit: "ms", values: bare },
      { what: "bridge above that", unit: "ms", values: differences(ready, bare) },
      { what: "bridge at rest, RSS", unit: "MB", values: own.rss, aim: { atMost: 60 } },
      { what: "node at rest, RSS", unit: "MB", values: base.rss },
      { what: "bridge at rest, private", unit: "MB", values: own.private, aim: { atMost: 25 } },
      { what: "node at rest, private", unit: "MB", values: base.private },
    ],
    notes: [
      `The bundled bridge as a process; its state folder is there from the second start on. Memory from smaps_rollup, ${REST_MS} ms after ` +
        "the welcome; MB are 10^6 bytes. Private is what no other process shares: node's own file is shared by all bridges of a machine.",
    ],
  };
}

export const bridgeBench: Bench = {
  name: "bridge",
  about: "time from spawn to hello, RSS and private memory of one bridge, against node with nothing to do",
  measure,
};
