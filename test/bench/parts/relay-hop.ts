// The host's side of a hop, as a program of its own: the relay with a real store, or a bare pipe from the same kind of
// socket to the same model. A line on standard input makes it tell what it has recorded, newest first.
//   node relay-hop.ts '{"kind":"relay","socketPath":…,"modelUrl":…,"directory":…}'
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { realClock } from "../../../controller/clock.ts";
import { openRelay } from "../../../controller/relay/relay.ts";
import { everyProtocol } from "../../../controller/relay/routes.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { listenOn } from "../../../controller/unix-server.ts";
import { type HopOrder, type Recorded, TOKEN } from "./relay-words.ts";

const SANDBOX = "box";
const MEMBER = "m-1";

const order = JSON.parse(process.argv[2] ?? "") as HopOrder;
const recorded = order.kind === "relay" ? await relay() : await pipe();
process.stdout.write("ready\n");
createInterface({ input: process.stdin }).on("line", () =>
  process.stdout.write(`${JSON.stringify(recorded())}\n`),
);

async function relay(): Promise<() => Recorded[]> {
  const nowAt = () => Date.now();
  const store = openStore({ directory: order.directory, nowAt, cliVersion: () => "1" });
  const made = openRelay(
    { routes: everyProtocol({ baseUrl: order.modelUrl, key: "k" }) },
    {
      clock: realClock,
      variables: {},
      calls: () => store.calls,
      onWarning: (what, detail) => process.stderr.write(`${what}: ${detail}\n`),
    },
  );
  const server = await listenOn(order.socketPath, 0o600, { maxHeaderSize: made.headerBytes });
  made.serve(server, {
    sandbox: SANDBOX,
    callerOf: (token) => (token === TOKEN ? { member: MEMBER, epoch: 1, processGeneration: 1 } : null),
    mayCall: () => true,
    standing: () => ({ protocol: "chat-completions", route: undefined, turn: null, nativeId: null }),
  });
  return () =>
    store.calls.list({ member: MEMBER }, 1000).map(({ outcome, usage }) => ({ outcome, usage: usage.state }));
}

async function pipe(): Promise<() => Recorded[]> {
  const port = Number(new URL(order.modelUrl).port);
  const server = createServer((near) => {
    const far = connect({ port, host: "127.0.0.1", noDelay: true });
    near.pipe(far).pipe(near);
    near.once("close", () => far.destroy());
    far.once("close", () => near.destroy());
    for (const socket of [near, far]) socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(order.socketPath, resolve));
  return () => [];
}
