// Bench 9: turns through the store on a PostgreSQL server that 1, 4 and 16 controllers share, each a process of its own
// with a host, a sandbox and a member of its own. Baseline: one controller on SQLite, on the same disk.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { StorePlace } from "../../controller/store/open-store.ts";
import { startPostgres } from "../support/postgres.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { median, ratios } from "./figures.ts";
import type { WriterFigures, WriterWords } from "./parts/store-writer.ts";

const WRITER = fileURLToPath(new URL("./parts/store-writer.ts", import.meta.url));
const COUNTS = [1, 4, 16] as const;

interface Crowd {
  perSecond: number;
  readP50Ms: number;
  readP99Ms: number;
  bothP50Ms: number;
  bothP99Ms: number;
}

/** All of them are ready before the first begins. */
async function crowd(
  context: BenchContext,
  places: ReadonlyArray<{ place: StorePlace; name: string }>,
  forMs: number,
): Promise<Crowd> {
  const writers = places.map((each) => {
    const words: WriterWords = { ...each, forMs };
    const child = spawn(context.node, [WRITER, JSON.stringify(words)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    context.scope.defer(() => void child.kill("SIGKILL"));
    return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator](), exit: once(child, "exit") };
  });
  const next = async ({ lines }: (typeof writers)[number]): Promise<string> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error("a writer ended before it had said all");
    return value;
  };
  await Promise.all(writers.map(next));
  for (const { child } of writers) child.stdin.write("go\n");
  const said = await Promise.all(writers.map(next));
  await Promise.all(writers.map(({ exit }) => exit));
  const all = said.map((line) => JSON.parse(line) as WriterFigures);
  const middle = (name: keyof WriterFigures) => median(all.map((figures) => figures[name]));
  return {
    perSecond: all.reduce((sum, { turns, tookMs }) => sum + (turns / tookMs) * 1000, 0),
    readP50Ms: middle("readP50Ms"),
    readP99Ms: middle("readP99Ms"),
    bothP50Ms: middle("bothP50Ms"),
    bothP99Ms: middle("bothP99Ms"),
  };
}

async function measure(context: BenchContext) {
  const { isQuick, scope, say, directory } = context;
  const server = await startPostgres();
  scope.defer(() => server.remove());
  const rounds = isQuick ? 2 : 5;
  const forMs = isQuick ? 1500 : 4000;
  const sqlite: Crowd[] = [];
  const postgres = COUNTS.map((): Crowd[] => []);
  for (let round = 0; round < rounds; round += 1) {
    say(`postgres: round ${round + 1} of ${rounds}`);
    const folder = await mkdtemp(join(directory, "s"));
    sqlite.push(await crowd(context, [{ place: { directory: folder }, name: "w" }], forMs));
    for (const [at, count] of COUNTS.entries()) {
      const schema = `bench_${round}_${count}`;
      const hosts = Array.from({ length: count }, (_, each) => `w${each}`);
      const places = hosts.map((host) => ({ place: { url: server.url(), schema, host }, name: host }));
      postgres[at]?.push(await crowd(context, places, forMs));
    }
  }
  const of = (crowds: readonly Crowd[], name: keyof Crowd) => crowds.map((each) => each[name]);
  const rows = [
    { name: "SQLite, 1 controller", crowds: sqlite },
    ...COUNTS.map((count, at) => ({
      name: `PostgreSQL, ${count} controller${count === 1 ? "" : "s"}`,
      crowds: postgres[at] ?? [],
    })),
  ];
  const one = postgres[0] ?? [];
  return {
    title: "turns through the store on PostgreSQL",
    figures: [
      ...rows.flatMap(({ name, crowds }) => [
        { what: `turns, ${name}`, unit: "/s", values: of(crowds, "perSecond") },
        { what: `admission + settlement p50, ${name}`, unit: "ms", values: of(crowds, "bothP50Ms") },
        { what: `admission + settlement p99, ${name}`, unit: "ms", values: of(crowds, "bothP99Ms") },
        { what: `a look at one row p50, ${name}`, unit: "ms", values: of(crowds, "readP50Ms") },
        { what: `a look at one row p99, ${name}`, unit: "ms", values: of(crowds, "readP99Ms") },
      ]),
      ...rows.slice(1).map(({ name, crowds }) => ({
        what: `turns, ${name}, by SQLite`,
        unit: "",
        values: ratios(of(crowds, "perSecond"), of(sqlite, "perSecond")),
      })),
      {
        what: "a look, PostgreSQL by SQLite, 1 controller",
        unit: "",
        values: ratios(of(one, "readP50Ms"), of(sqlite, "readP50Ms")),
      },
    ],
    notes: [
      `A server on this machine, over the loopback, fsync and synchronous_commit on; its data and SQLite's file are on the same disk. Each ` +
        `controller is a process that does nothing else for ${forMs} ms; a turn is six durable steps and one look. The latencies are the medians of the controllers' own.`,
      "Controllers and server share the machine's cores: with more controllers than cores the figures say how they share, not what a server takes.",
    ],
  };
}

export const postgresBench: Bench = {
  name: "postgres",
  about: "turns through the store on a PostgreSQL server that 1, 4 and 16 controllers share, against SQLite",
  measure,
};
