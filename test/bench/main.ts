// The benches: `npm run bench [-- NAME...] [--quick] [--json] [--as-built] [--profile DIR] [--help]`. Prints what was measured, with
// the baseline of the same run beside it; figures are no test and fail nothing.
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { newRun } from "../../scripts/leftovers.ts";
import type { Bench, BenchReport } from "./bench.ts";
import { bridgeBench } from "./bridge.ts";
import { coldBench } from "./cold.ts";
import { FIGURE_COLUMNS, figureRow, isMet, spreadOf, table, wrap } from "./figures.ts";
import { idleBench } from "./idle.ts";
import { liveBench } from "./live.ts";
import { loadText, type Machine, machineFacts, machineLines } from "./machine.ts";
import { postgresBench } from "./postgres.ts";
import { buildBridge, findPlace, sweepContainers } from "./prepare.ts";
import { relayBench } from "./relay.ts";
import { requestsBench } from "./requests.ts";
import { Scope } from "./scope.ts";
import { storeBench } from "./store.ts";
import { streamBench } from "./stream.ts";

const BENCHES: readonly Bench[] = [
  streamBench,
  liveBench,
  coldBench,
  bridgeBench,
  storeBench,
  postgresBench,
  requestsBench,
  idleBench,
  relayBench,
];

const HELP = `npm run bench [-- NAME...] [options]

Measures Holdfast against baselines taken in the same run. Without a name: all.

${BENCHES.map(({ name, about }) => `  ${name.padEnd(8)}${about}`).join("\n")}

  --quick        fewer runs: all in about 90 s instead of up to 6 minutes
  --json         one JSON document on stdout instead of tables
  --as-built     takes dist/ and the image as they are, and builds nothing
  --profile DIR  CPU profiles of bridge and client of the bench "stream" (they slow it down)
  --help         this text

Progress goes to stderr. docs/bench.md says how to read the figures.
`;

const NOTE_CHARS = 110;

interface Done extends BenchReport {
  name: string;
  tookMs: number;
  /** Of the last minute, when it began and when it ended. */
  load: [number, number];
}

async function main(): Promise<number> {
  // 1. What is wanted.
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      "as-built": { type: "boolean", default: false },
      profile: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const unknown = positionals.filter((name) => !BENCHES.some((bench) => bench.name === name));
  if (unknown.length > 0)
    throw new TypeError(`no bench is called ${unknown.join(" or ")}; --help names them`);
  const chosen = BENCHES.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const say = (line: string) => void process.stderr.write(`${line}\n`);

  // 2. A place of their own, and an end to all of it on every way out.
  const run = newRun();
  const scope = new Scope();
  const directory = await mkdtemp("/tmp/hfb-");
  scope.defer(() => rm(directory, { recursive: true, force: true }));
  let isEnding = false;
  for (const [name, code] of [
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const) {
    process.once(name, () => {
      isEnding = true;
      say(`bench: ${name}, ending what was started`);
      scope.close().then(
        () => process.exit(code),
        (error: unknown) => {
          say(`bench: not all could be ended: ${String(error)}`);
          process.exit(code);
        },
      );
    });
  }

  // 3. Build, then measure one after the other.
  const machine = await machineFacts();
  for (const line of machineLines(machine)) say(line);
  const done: Done[] = [];
  let failures = 0;
  try {
    const isAsBuilt = values["as-built"];
    const bridgePath = await buildBridge(directory, isAsBuilt);
    const place = once(async () => {
      scope.defer(() => sweepContainers(run));
      return findPlace(directory, { isAsBuilt, hasEngine: machine.engine !== null, say });
    });
    const runOne = async (bench: Bench): Promise<Done> => {
      const own = new Scope();
      scope.defer(() => own.close());
      const began = { ms: performance.now(), load: loadavg()[0] ?? 0 };
      try {
        const report = await bench.measure({
          isQuick: values.quick,
          scope: own,
          directory: await mkdtemp(join(directory, "b")),
          node: process.execPath,
          bridgePath,
          place,
          run,
          profileDirectory: values.profile === undefined ? null : resolve(values.profile),
          say,
        });
        const load: Done["load"] = [began.load, loadavg()[0] ?? 0];
        return { name: bench.name, ...report, tookMs: performance.now() - began.ms, load };
      } finally {
        await own.close();
      }
    };
    for (const bench of chosen) {
      try {
        done.push(await runOne(bench));
        if (!values.json) process.stdout.write(`\n${asText(done.at(-1) as Done)}\n`);
      } catch (error) {
        failures += 1;
        // What was taken away under it fails; that says nothing.
        if (isEnding) break;
        say(`bench ${bench.name} failed: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  } finally {
    await scope.close();
  }

  // 4. All of it, with what it was measured on.
  const end = { load: loadavg() };
  process.stdout.write(
    values.json
      ? `${JSON.stringify(asJson(machine, end.load, done), null, 2)}\n`
      : `\n${closing(machine, end.load)}\n`,
  );
  return failures === 0 ? 0 : 1;
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

function asText({ name, title, figures, notes, tookMs, load }: Done): string {
  return [
    `== ${name}: ${title} (${Math.round(tookMs / 1000)} s, load average ${load.map((value) => value.toFixed(1)).join(" to ")})`,
    "",
    table(FIGURE_COLUMNS, figures.map(figureRow)),
    "",
    ...notes.flatMap((note) =>
      wrap(note, NOTE_CHARS).map((line, at) => (at === 0 ? `- ${line}` : `  ${line}`)),
    ),
  ].join("\n");
}

function closing(machine: Machine, load: readonly number[]): string {
  return [
    ...machineLines(machine),
    `load average at the end ${loadText(load)}. Median, least and most are over the runs; aims are held against the median.`,
  ].join("\n");
}

function asJson(machine: Machine, loadAtEnd: readonly number[], done: readonly Done[]): unknown {
  return {
    machine: { ...machine, loadAtEnd },
    benches: done.map(({ figures, ...bench }) => ({
      ...bench,
      figures: figures.map((figure) => ({ ...figure, ...spreadOf(figure.values), isMet: isMet(figure) })),
    })),
  };
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
