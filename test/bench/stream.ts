// Bench 1: text deltas from a stand-in server through bridge and controller to a client that iterates the turn, against a
// bare pipe in three processes. Rate as fast as it goes, and latency at a rate that a fast model has.
import { once } from "node:events";
import { createServer, request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";
import { type Host, openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import { processSandboxes } from "../../controller/sandboxes/process.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { cpuMs, peakRssMb, pidOfBridge, startAndHear } from "./children.ts";
import { differences, formatNumber, percentile, ratios } from "./figures.ts";
import { MEMBER } from "./member.ts";
import type { Envelope } from "./parts/pipe-relay.ts";
import {
  checkWhole,
  type Directive,
  nowNs,
  RECORD_CHARS,
  readRecord,
  recordAt,
  SESSION,
} from "./parts/record.ts";
import { SOURCE_VERSION } from "./parts/serve-source.ts";
import { profileHere } from "./profile.ts";

const SOURCE = fileURLToPath(new URL("./parts/serve-source.ts", import.meta.url));
const RELAY = fileURLToPath(new URL("./parts/pipe-relay.ts", import.meta.url));

/** A turn's text may have 2 Mi characters; this many events of 400 bytes stay below. */
const EVENTS_PER_TURN = 10_000;
const PACED_PER_SECOND = 200;

/** What arrived of one turn. */
interface Arrival {
  /** Of the source's events, those whose text came to the client before the turn's end. */
  events: number;
  /** From the first event's writing to the last one's arrival at the client. */
  tookNs: number;
  latenciesMs: number[];
  /** From the last text to the turn's end. */
  endMs: number;
}

interface Chain {
  name: string;
  /** The process between source and client. */
  middlePid: number;
  turn(directive: Directive): Promise<Arrival>;
}

/** Puts a turn's texts together as a client would, and knows when they came. */
class Arrivals {
  readonly #pieces: Array<{ text: string; atNs: number }> = [];

  take(text: string): void {
    this.#pieces.push({ text, atNs: nowNs() });
  }

  /** Checks that nothing is missing between, and reads the times out of the text. */
  end(): { arrival: Arrival; text: string } {
    const endNs = nowNs();
    const text = this.#pieces.map((piece) => piece.text).join("");
    const events = Math.floor(text.length / RECORD_CHARS);
    checkWhole(text.slice(0, events * RECORD_CHARS), events);
    const latenciesMs: number[] = [];
    let length = 0;
    for (const piece of this.#pieces) {
      const known = Math.floor(length / RECORD_CHARS);
      length += piece.text.length;
      for (let at = known; at < Math.floor(length / RECORD_CHARS); at += 1) {
        const { sentNs } = readRecord(recordAt(text, at));
        if (sentNs > 0) latenciesMs.push((piece.atNs - sentNs) / 1e6);
      }
    }
    const lastNs = this.#pieces.at(-1)?.atNs ?? endNs;
    const tookNs = lastNs - readRecord(recordAt(text, 0)).sentNs;
    return { arrival: { events, tookNs, latenciesMs, endMs: (endNs - lastNs) / 1e6 }, text };
  }
}

// --- the two kinds of chain

async function holdfast(context: BenchContext): Promise<Chain> {
  const { scope, profileDirectory } = context;
  const host: Host = await openHost({
    directory: join(context.directory, "h"),
    drivers: [
      processSandboxes({
        bridgePath: context.bridgePath,
        node: context.node,
        clis: [{ cli: "opencode", version: SOURCE_VERSION, command: [context.node, SOURCE] }],
        limits: {},
        environment: {
          PATH: process.env.PATH,
          HOLDFAST_TEST_RUN: context.run,
          ...(profileDirectory === null
            ? {}
            : {
                NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${profileDirectory} --cpu-prof-name=bridge.cpuprofile`,
              }),
        },
      }),
    ],
    // Nothing asks a model here.
    relay: { routes: everyProtocol({ baseUrl: "http://127.0.0.1:9/v1", key: null }) },
    onWarning: (what, detail) => context.say(`warning: ${what}: ${detail}`),
  });
  scope.defer(() => host.close());
  const sandbox = host.createSandbox({ kind: "process" }).id;
  scope.defer(() => host.removeSandbox(sandbox));
  const member = host.createMember({
    sandbox,
    cli: "opencode",
    ...MEMBER,
  }).id;
  await host.startSandbox(sandbox);
  return {
    name: "Holdfast",
    middlePid: pidOfBridge(join(context.directory, "h", "s", sandbox, "process.json")),
    async turn(directive) {
      const arrivals = new Arrivals();
      const turn = host.submit(member, JSON.stringify(directive));
      let length = 0;
      for await (const update of turn) {
        if (update.kind !== "text") continue;
        if (update.from !== length) throw new Error(`text at ${update.from}, where ${length} was awaited`);
        length += update.text.length;
        arrivals.take(update.text);
      }
      const { outcome, parts, error } = await turn.settlement;
      if (outcome !== "completed") throw new Error(`a turn ended ${outcome}: ${error?.message ?? ""}`);
      const whole = parts.join("");
      checkWhole(whole, directive.events);
      const { arrival, text } = arrivals.end();
      if (!whole.startsWith(text)) throw new Error("the reader's text is not the settlement's");
      return arrival;
    },
  };
}

async function barePipe(context: BenchContext, mode: "each" | "batch"): Promise<Chain> {
  const { scope, node } = context;
  const source = await startAndHear({ scope, command: [node, SOURCE] });
  const port = Number(source.line.match(/:(\d+)$/)?.[1]);
  const socketPath = join(context.directory, `${mode}.sock`);
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  server.listen(socketPath);
  await once(server, "listening");
  scope.defer(async () => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    await new Promise((resolve) => server.close(resolve));
  });
  let onEvent: (event: Envelope["event"]) => void = () => undefined;
  sockets.on("connection", (socket) => {
    socket.on("message", (bytes: Buffer) => {
      const value = JSON.parse(bytes.toString("utf8")) as Envelope | Envelope[];
      for (const { event } of Array.isArray(value) ? value : [value]) onEvent(event);
    });
  });
  const { child } = await startAndHear({ scope, command: [node, RELAY, String(port), socketPath, mode] });
  return {
    name: mode === "batch" ? "bare pipe, batched per read" : "bare pipe, one frame an event",
    middlePid: child.pid ?? 0,
    async turn(directive) {
      const arrivals = new Arrivals();
      const ended = new Promise<void>((resolve) => {
        onEvent = ({ type, properties }) => {
          if (type === "message.part.delta") arrivals.take(properties.delta ?? "");
          else if (type === "session.idle") resolve();
        };
      });
      await prompt(port, directive);
      await ended;
      return arrivals.end().arrival;
    },
  };
}

function prompt(port: number, directive: Directive): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({
      host: "127.0.0.1",
      port,
      method: "POST",
      path: `/session/${SESSION}/prompt_async`,
    });
    call.once("error", reject);
    call.once("response", (response) => response.resume().once("end", resolve));
    call.end(
      JSON.stringify({ messageID: "msg_own", parts: [{ type: "text", text: JSON.stringify(directive) }] }),
    );
  });
}

// --- the measuring

async function measure(context: BenchContext) {
  const { isQuick, say } = context;
  const own = await holdfast(context);
  const chains = [own, await barePipe(context, "batch"), await barePipe(context, "each")];
  const flood = { events: EVENTS_PER_TURN, perSecond: 0 };

  say("stream: warming up");
  for (const chain of chains) for (let at = 0; at < 2; at += 1) await chain.turn(flood);

  const rates = chains.map((): number[] => []);
  const middleCpu = chains.map((): number[] => []);
  const clientCpu = chains.map((): number[] => []);
  let missing = 0;
  const ends: number[] = [];
  const turns = isQuick ? 2 : 7;
  const rounds = isQuick ? 3 : 5;
  const profile = await profileHere(context.profileDirectory, "controller-flood");
  for (let round = 0; round < rounds; round += 1) {
    for (const [at, chain] of chains.entries()) {
      say(`stream: rate, round ${round + 1} of ${rounds}, ${chain.name}`);
      let tookNs = 0;
      let events = 0;
      const middleMs = cpuMs(chain.middlePid);
      const clientUs = process.cpuUsage();
      for (let turn = 0; turn < turns; turn += 1) {
        const arrival = await chain.turn(flood);
        tookNs += arrival.tookNs;
        events += arrival.events;
        if (chain === own) ends.push(arrival.endMs);
      }
      rates[at]?.push(events / (tookNs / 1e9));
      missing += turns * EVENTS_PER_TURN - events;
      middleCpu[at]?.push(((cpuMs(chain.middlePid) - middleMs) * 1000) / events);
      const { user, system } = process.cpuUsage(clientUs);
      clientCpu[at]?.push((user + system) / events);
    }
  }
  await profile.stop();
  const peakMb = peakRssMb(own.middlePid);

  const middles = chains.map((): number[] => []);
  const tails = chains.map((): number[] => []);
  const paced = { events: PACED_PER_SECOND * (isQuick ? 2 : 4), perSecond: PACED_PER_SECOND };
  const pacedRounds = isQuick ? 2 : 4;
  for (let round = 0; round < pacedRounds; round += 1) {
    for (const [at, chain] of chains.entries()) {
      say(`stream: latency, round ${round + 1} of ${pacedRounds}, ${chain.name}`);
      const { latenciesMs } = await chain.turn(paced);
      middles[at]?.push(percentile(latenciesMs, 0.5));
      tails[at]?.push(percentile(latenciesMs, 0.99));
    }
  }

  const turnMb = (EVENTS_PER_TURN * RECORD_CHARS) / 1e6;
  const of = (lists: number[][], at: number) => lists[at] ?? [];
  return {
    title: "events of 400 bytes to a client that iterates the turn",
    figures: [
      ...chains.map(({ name }, at) => ({ what: `rate, ${name}`, unit: "events/s", values: of(rates, at) })),
      {
        what: "rate by that of the batched pipe",
        unit: "",
        values: ratios(of(rates, 0), of(rates, 1)),
        aim: { atLeast: 0.6 },
      },
      {
        what: "rate by that of one frame an event",
        unit: "",
        values: ratios(of(rates, 0), of(rates, 2)),
      },
      {
        what: "events not at the client by their turn's end",
        unit: "events",
        values: [missing],
        aim: { atMost: 0 },
      },
      ...chains.flatMap(({ name }, at) => [
        { what: `CPU between, ${name}`, unit: "us/event", values: of(middleCpu, at) },
        { what: `CPU at the client, ${name}`, unit: "us/event", values: of(clientCpu, at) },
      ]),
      ...chains.flatMap(({ name }, at) => [
        { what: `latency p50, ${name}`, unit: "ms", values: of(middles, at) },
        { what: `latency p99, ${name}`, unit: "ms", values: of(tails, at) },
      ]),
      {
        what: "added latency p50 against the batched pipe",
        unit: "ms",
        values: differences(of(middles, 0), of(middles, 1)),
        aim: { atMost: 0.3 },
      },
      {
        what: "added latency p99 against the batched pipe",
        unit: "ms",
        values: differences(of(tails, 0), of(tails, 1)),
      },
      { what: `last text to settlement, ${formatNumber(turnMb)} MB of text`, unit: "ms", values: ends },
      { what: "bridge's highest RSS", unit: "MB", values: [peakMb] },
    ],
    notes: [
      `Rate: ${turns} turns of ${EVENTS_PER_TURN} events a run, from the first event's writing to the last one's arrival; ` +
        "events of the source are counted, not frames. Latency: " +
        `${paced.events} events at ${PACED_PER_SECOND} a second a run, from an event's writing to its text at the client.`,
      "Each turn's text is checked event by event, and against its settlement.",
      "CPU is of the whole turn, end and settlement included; between is bridge or relay. It suffers less from a busy machine than a rate.",
      "Three processes in each chain: source, bridge or relay, client. Holdfast also journals, gates and stores each turn.",
    ],
  };
}

export const streamBench: Bench = {
  name: "stream",
  about: "events through bridge and controller to a client, against a bare pipe: rate and added latency",
  measure,
};
