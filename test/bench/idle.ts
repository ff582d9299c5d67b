// Bench 7: what a member costs that does nothing: CPU time of everything in its sandbox, with a live subscription and its
// canaries, against the same CLI with a direct client's open stream.
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { openEngine } from "../../controller/sandboxes/engine-api.ts";
import type { Bench, BenchContext, Place } from "./bench.ts";
import { startDirect } from "./direct.ts";
import { createMember, openBenchHost, placeNote, startModel, timedTurn } from "./real-turns.ts";

/** Clock ticks a second of /proc; fixed on Linux. */
const TICKS = 100;

interface Entry {
  pid: number;
  parent: number;
  ticks: number;
  name: string;
}

async function processes(): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    // Gone between the listing and the reading: it costs nothing any more.
    const stat = await readFile(`/proc/${name}/stat`, "utf8").catch(() => null);
    if (stat === null) continue;
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    entries.push({
      pid: Number(name),
      parent: Number(fields[1]),
      ticks: Number(fields[11]) + Number(fields[12]),
      name: stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")),
    });
  }
  return entries;
}

/** CPU of a process and all below it, ms so far: of the CLI, and of everything else. */
async function cpuBelow(root: number): Promise<{ cliMs: number; restMs: number }> {
  const entries = await processes();
  const below = new Set([root]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const { pid, parent } of entries) if (below.has(parent)) below.add(pid);
  }
  const sum = (isCli: boolean) =>
    entries
      .filter(({ pid, name }) => below.has(pid) && (name === "opencode") === isCli)
      .reduce((ms, { ticks }) => ms + (ticks * 1000) / TICKS, 0);
  return { cliMs: sum(true), restMs: sum(false) };
}

async function rootOf(place: Place, root: { containerId: string } | { pid: number }): Promise<number> {
  if ("pid" in root) return root.pid;
  if (place.kind !== "container") throw new TypeError("a container needs an engine");
  const engine = openEngine(place.engineSocketPath);
  try {
    const answer = await engine.call("GET", `/containers/${root.containerId}/json`);
    return (JSON.parse(answer.body.toString("utf8")) as { State: { Pid: number } }).State.Pid;
  } finally {
    engine.close();
  }
}

async function measure(context: BenchContext) {
  const { isQuick, scope, say } = context;
  const place = await context.place();
  const modelUrl = await startModel(context);
  const host = await openBenchHost(context, { scope, place, modelUrl });
  const member = createMember(host, scope, place);
  const direct = await startDirect(context, { scope, place, name: "direct", modelUrl });
  await timedTurn(host, member, "Warm up, please.");
  await direct.turn("Warm up, please.");
  const sandbox = host.store.sandbox(host.member(member).sandbox);
  const containerId = sandbox?.container?.containerId ?? "";
  const own = await rootOf(
    place,
    place.kind === "container" ? { containerId } : await bridgePid(sandbox?.directory),
  );
  const base = await rootOf(place, direct.root);

  const periodMs = isQuick ? 10_000 : 20_000;
  const periods = 3;
  say(`idle: watching both for ${(periodMs * periods) / 1000} s`);
  const cli: number[] = [];
  const bridge: number[] = [];
  const baseline: number[] = [];
  const client: number[] = [];
  await sleep(3000);
  for (let at = 0; at < periods; at += 1) {
    const before = { own: await cpuBelow(own), base: await cpuBelow(base) };
    await sleep(periodMs);
    const after = { own: await cpuBelow(own), base: await cpuBelow(base) };
    const aMinute = (ms: number) => (ms * 60_000) / periodMs;
    bridge.push(aMinute(after.own.restMs - before.own.restMs));
    cli.push(aMinute(after.own.cliMs - before.own.cliMs));
    client.push(aMinute(after.base.restMs - before.base.restMs));
    baseline.push(aMinute(after.base.cliMs - before.base.cliMs));
  }
  return {
    title: "CPU of an idle, subscribed member",
    figures: [
      { what: "the bridge", unit: "ms/min", values: bridge },
      { what: "the CLI under it", unit: "ms/min", values: cli },
      { what: "a direct client", unit: "ms/min", values: client },
      { what: "the CLI under that", unit: "ms/min", values: baseline },
    ],
    notes: [
      placeNote(place),
      "CPU time of the processes in the sandbox, in ticks of 10 ms; the controller's is not in it.",
    ],
  };
}

async function bridgePid(directory: string | undefined): Promise<{ pid: number }> {
  const record = await readFile(`${directory ?? ""}/process.json`, "utf8");
  return JSON.parse(record) as { pid: number };
}

export const idleBench: Bench = {
  name: "idle",
  about: "CPU time of a member with a live subscription and no turn, against a direct client's",
  measure,
};
