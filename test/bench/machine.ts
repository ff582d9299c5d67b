// What the figures were measured on. Names no host and no path.
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";
import { engineSocket, openEngine } from "../../controller/sandboxes/engine-api.ts";
import { formatNumber } from "./figures.ts";

export interface Machine {
  at: string;
  cores: number;
  cpu: string;
  memoryGb: number;
  kernel: string;
  node: string;
  /** Null when none answers. */
  engine: string | null;
  /** Over 1, 5 and 15 minutes, when the bench began: others may use the machine. */
  load: number[];
}

export async function machineFacts(): Promise<Machine> {
  return {
    at: new Date().toISOString(),
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    memoryGb: totalmem() / 1e9,
    kernel: release(),
    node: process.versions.node,
    engine: await engineVersion(),
    load: loadavg(),
  };
}

async function engineVersion(): Promise<string | null> {
  const engine = openEngine(engineSocket(process.env.DOCKER_HOST));
  try {
    if (!(await engine.ping())) return null;
    const answer = await engine.call("GET", "/version", { limitMs: 5000 });
    return (JSON.parse(answer.body.toString("utf8")) as { Version?: string }).Version ?? "unknown";
  } finally {
    engine.close();
  }
}

export function machineLines(machine: Machine): string[] {
  const { at, cores, cpu, memoryGb, kernel, node, engine, load } = machine;
  return [
    `${at}: ${cores} cores (${cpu}), ${formatNumber(memoryGb)} GB, Linux ${kernel}`,
    `node ${node}, container engine ${engine ?? "none"}, load average ${loadText(load)}`,
  ];
}

export function loadText(load: readonly number[]): string {
  return load.map((value) => value.toFixed(2)).join(" ");
}
