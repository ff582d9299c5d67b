// Bench 8: the model relay. A call through inlet and relay (each a process of its own, with a real store) against one to
// the same model directly; a large answer against a bare pipe in the same places; memory with many clients that take
// nothing; and what becomes of calls whose client goes away.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Bench, BenchContext } from "./bench.ts";
import { memoryOf, startAndHear } from "./children.ts";
import { differences, percentile, ratios } from "./figures.ts";
import { nowNs } from "./parts/record.ts";
import { type Closes, type HopOrder, type Order, type Recorded, TOKEN } from "./parts/relay-words.ts";
import type { Scope } from "./scope.ts";

const part = (name: string) => fileURLToPath(new URL(`./parts/${name}.ts`, import.meta.url));
const SLOW_STREAMS = 200;
const SLOW_BYTES = 16 * 1024 * 1024;
const CANCELS = 100;
/** Half of the cancelled calls state their usage so long after their first byte: within the drain, whatever the load. */
const ENDS_MS = 400;
const DRAIN_MS = 1000;
const MB = 1e6;

/** A way to the model: its address for a client, and the program between. */
interface Way {
  url: URL;
  agent: Agent;
  hop: Told | null;
}

/** A program that answers a line with a line. */
class Told {
  readonly child: ChildProcess;
  readonly #lines: Interface;

  constructor(child: ChildProcess) {
    this.child = child;
    this.#lines = createInterface({ input: child.stdout ?? process.stdin });
  }

  async ask<T>(): Promise<T> {
    const answered = once(this.#lines, "line", { signal: AbortSignal.timeout(10_000) });
    this.child.stdin?.write("tell\n");
    const [line] = (await answered) as [string];
    return JSON.parse(line) as T;
  }
}

function wayTo(scope: Scope, url: string, hop: Told | null): Way {
  const agent = new Agent({ keepAlive: true });
  scope.defer(() => agent.destroy());
  return { url: new URL(url), agent, hop };
}

async function hopTo(context: BenchContext, kind: HopOrder["kind"], modelUrl: string): Promise<Way> {
  const { scope, node, directory } = context;
  const store = join(directory, kind);
  await mkdir(store);
  const socketPath = join(directory, `${kind}.sock`);
  const order: HopOrder = { kind, socketPath, modelUrl, directory: store };
  const hop = await startAndHear({ scope, command: [node, part("relay-hop"), JSON.stringify(order)] });
  const inlet = await startAndHear({ scope, command: [node, part("relay-inlet"), socketPath] });
  return wayTo(scope, inlet.line, new Told(hop.child));
}

function ask({ url, agent }: Way, order: Order) {
  const call = request({
    hostname: url.hostname,
    port: url.port,
    agent,
    method: "POST",
    path: `${url.pathname}/chat/completions`,
    headers: {
      authorization: `Bearer ${TOKEN}`,
      "content-type": "application/json",
      "x-bench": JSON.stringify(order),
    },
  });
  const answered = once(call, "response").then(([answer]) => answer as IncomingMessage);
  call.end(BODY);
  return { call, answered };
}

/** A request of a usual size. */
const BODY = JSON.stringify({ model: "m1", messages: [{ role: "user", content: "x".repeat(20_000) }] });

/** From the call to the first byte of the answer's body. */
async function firstByteMs(way: Way): Promise<number> {
  const startMs = performance.now();
  const answer = await ask(way, { kind: "short" }).answered;
  let firstMs = 0;
  for await (const _ of answer) firstMs ||= performance.now() - startMs;
  return firstMs;
}

async function megabytesPerSecond(way: Way, bytes: number): Promise<number> {
  const answer = await ask(way, { kind: "large", bytes }).answered;
  const startMs = performance.now();
  let got = 0;
  for await (const chunk of answer) got += (chunk as Buffer).length;
  if (got !== bytes) throw new Error(`${got} bytes of ${bytes} came`);
  return bytes / MB / ((performance.now() - startMs) / 1000);
}

/** Clients that take nothing of a large answer; the relay's memory before, and when all of them hold. */
async function slowClients(way: Way): Promise<{ before: number; with: number }> {
  const pid = way.hop?.child.pid ?? 0;
  const before = memoryOf(pid).rssMb;
  const calls = Array.from({ length: SLOW_STREAMS }, () => ask(way, { kind: "large", bytes: SLOW_BYTES }));
  const answers = await Promise.all(calls.map(({ answered }) => answered));
  // What the sockets on the way can hold is taken first; then nothing moves any more.
  let last = 0;
  for (let rssMb = memoryOf(pid).rssMb; rssMb > last * 1.01; rssMb = memoryOf(pid).rssMb) {
    last = rssMb;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  const held = memoryOf(pid).rssMb;
  for (const answer of answers) answer.destroy();
  // What these have asked for is read on for a while: not beside the next measurement.
  await new Promise((resolve) => setTimeout(resolve, 2 * DRAIN_MS));
  return { before, with: held };
}

interface Cancels {
  /** From the client's going to the close of the provider's connection; sooner where the answer came to its end. */
  closedMs: number[];
  bytesAfter: number;
  /** Of the calls whose usage came in time, those whose record knows it. */
  known: number;
  cancelled: number;
}

async function cancels(way: Way, model: Told): Promise<Cancels> {
  const gone = new Map<string, number>();
  let bytesAfter = 0;
  // One after the other, each while those before it are drained.
  for (let at = 0; at < CANCELS; at += 1) {
    const id = `cancel-${at}`;
    const { call, answered } = ask(way, { kind: "stream", id, endsMs: at % 2 === 0 ? null : ENDS_MS });
    call.on("error", () => undefined);
    const answer = await answered;
    answer.on("error", () => undefined);
    await once(answer, "data");
    gone.set(id, nowNs());
    answer.on("data", (chunk: Buffer) => {
      bytesAfter += chunk.length;
    });
    call.destroy();
  }
  await new Promise((resolve) => setTimeout(resolve, 2 * DRAIN_MS));
  const closes = await model.ask<Closes>();
  const newest = ((await way.hop?.ask<Recorded[]>()) ?? []).slice(0, CANCELS);
  const cancelled = newest.filter(({ outcome }) => outcome === "cancelled");
  return {
    closedMs: [...gone].map(([id, atNs]) => ((closes[id] ?? Number.NaN) - atNs) / 1e6),
    bytesAfter,
    known: cancelled.filter(({ usage }) => usage === "known").length,
    cancelled: cancelled.length,
  };
}

async function measure(context: BenchContext) {
  const { isQuick, scope, node, say } = context;
  const started = await startAndHear({ scope, command: [node, part("relay-model")] });
  const model = new Told(started.child);
  const direct = wayTo(scope, started.line, null);
  const relay = await hopTo(context, "relay", started.line);
  const pipe = await hopTo(context, "pipe", started.line);

  say("relay: first bytes");
  const series = isQuick ? 3 : 8;
  const calls = 100;
  const p50 = { relay: [] as number[], direct: [] as number[] };
  const p99 = { relay: [] as number[], direct: [] as number[] };
  for (let at = -1; at < series; at += 1) {
    const own: number[] = [];
    const base: number[] = [];
    for (let call = 0; call < calls; call += 1) {
      own.push(await firstByteMs(relay));
      base.push(await firstByteMs(direct));
    }
    if (at < 0) continue;
    p50.relay.push(percentile(own, 0.5));
    p50.direct.push(percentile(base, 0.5));
    p99.relay.push(percentile(own, 0.99));
    p99.direct.push(percentile(base, 0.99));
  }

  say("relay: a large answer");
  const bytes = (isQuick ? 64 : 256) * 1024 * 1024 - 1;
  const rates = { relay: [] as number[], pipe: [] as number[] };
  for (let at = -1; at < (isQuick ? 3 : 7); at += 1) {
    const own = await megabytesPerSecond(relay, bytes);
    const base = await megabytesPerSecond(pipe, bytes);
    if (at < 0) continue;
    rates.relay.push(own);
    rates.pipe.push(base);
  }

  say(`relay: ${SLOW_STREAMS} clients that take nothing`);
  const memory = await slowClients(relay);
  say(`relay: ${CANCELS} clients that go away`);
  const drain = await cancels(relay, model);

  return {
    title: "calls of a model through inlet and relay, against the same model directly and a bare pipe",
    figures: [
      { what: "first byte, relay, p50 of 100", unit: "ms", values: p50.relay },
      { what: "first byte, direct, p50 of 100", unit: "ms", values: p50.direct },
      { what: "added, p50", unit: "ms", values: differences(p50.relay, p50.direct), aim: { atMost: 2 } },
      { what: "first byte, relay, p99 of 100", unit: "ms", values: p99.relay },
      { what: "added, p99", unit: "ms", values: differences(p99.relay, p99.direct), aim: { atMost: 10 } },
      { what: "a large answer, relay", unit: "MB/s", values: rates.relay },
      { what: "a large answer, bare pipe", unit: "MB/s", values: rates.pipe },
      {
        what: "relay by bare pipe",
        unit: "ratio",
        values: ratios(rates.relay, rates.pipe),
        aim: { atLeast: 0.8 },
      },
      {
        what: `relay's memory with ${SLOW_STREAMS} slow clients, added`,
        unit: "MB",
        values: [memory.with - memory.before],
      },
      { what: "the same for each", unit: "MB", values: [(memory.with - memory.before) / SLOW_STREAMS] },
      { what: "client gone to provider closed", unit: "ms", values: drain.closedMs },
      {
        what: "the latest of them",
        unit: "ms",
        values: [Math.max(...drain.closedMs)],
        aim: { atMost: 1050 },
      },
      {
        what: "bytes passed on to clients that had gone",
        unit: "B",
        values: [drain.bytesAfter],
        aim: { atMost: 0 },
      },
      {
        what: "calls recorded as cancelled",
        unit: "calls",
        values: [drain.cancelled],
        aim: { atLeast: CANCELS },
      },
      {
        what: "usage known, where it came in time",
        unit: "ratio",
        values: [drain.known / (CANCELS / 2)],
        aim: { atLeast: 1 },
      },
    ],
    notes: [
      "Client, inlet, relay or pipe, and model are a process each; a request has 20 kB. The relay digests it, reads the answer along and writes one durable record a call, behind the answer.",
      `Slow clients read nothing of an answer of ${Math.round(SLOW_BYTES / MB)} MB; memory is the relay's RSS when it has come to rest.`,
      `Of the cancelled calls half state their usage ${ENDS_MS} ms after their first byte, and the others never; the drain is ${DRAIN_MS} ms. One clock for all processes.`,
    ],
  };
}

export const relayBench: Bench = {
  name: "relay",
  about: "a call through the model relay, against one to the model directly and a bare pipe",
  measure,
};
