// What test runs leave in the container engine: found by our label, told apart by run, removed.
// Touches nothing without the label, and nothing of a run whose process still lives (two runs may share an engine).
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  DEFAULT_ENGINE_SOCKET,
  EngineError,
  engineJson,
  pingEngine,
  socketOfDockerHost,
} from "../sandbox-image/engine-http.ts";

/** Label of every container, volume, network and image that tests make; its value is the run (see newRun). */
export const testLabel = "dev.holdfast.test";

const goneLimitMs = 10_000;
const pollMs = 200;

export type Leftover = { kind: "container" | "volume" | "network" | "image"; id: string; run: string };

/** A new run's name: pid, start of that process, nonce; so that anyone can see whether its process still lives. */
export function newRun(): string {
  return `${process.pid}.${startOf(process.pid)}.${randomBytes(4).toString("hex")}`;
}

export function isRunAlive(run: string): boolean {
  const [pid = "", start = ""] = run.split(".");
  return /^\d+$/.test(pid) && start !== "" && startOf(Number(pid)) === start;
}

/** All that carries our label, of one run or of every run; undefined when no engine answers. */
export async function listLeftovers(run?: string): Promise<Leftover[] | undefined> {
  if (!(await pingEngine(socketPath()))) return undefined;
  const filters = JSON.stringify({ label: [run ? `${testLabel}=${run}` : testLabel] });
  const containers = await list<Listed[]>("/containers/json", { all: "1", filters });
  const volumes = await list<{ Volumes: Listed[] | null }>("/volumes", { filters });
  const networks = await list<Listed[]>("/networks", { filters });
  const images = await list<Listed[]>("/images/json", { filters });
  return [
    ...(containers ?? []).map(toLeftover("container")),
    ...(volumes?.Volumes ?? []).map(toLeftover("volume")),
    ...(networks ?? []).map(toLeftover("network")),
    ...(images ?? []).map(toLeftover("image")),
  ];
}

/** Removes what the predicate names, containers first; gives what was removed, throws when something stays. */
export async function removeLeftovers(isOurs: (run: string) => boolean): Promise<Leftover[]> {
  const found = (await listLeftovers())?.filter((leftover) => isOurs(leftover.run)) ?? [];
  for (const leftover of found) await remove(leftover);
  const until = performance.now() + goneLimitMs;
  for (;;) {
    const left = (await listLeftovers())?.filter((leftover) => isOurs(leftover.run)) ?? [];
    if (left.length === 0) return found;
    if (performance.now() > until) throw new Error(`the engine keeps ${left.map(describe).join(", ")}`);
    await sleep(pollMs);
  }
}

export function describe(leftover: Leftover): string {
  return `${leftover.kind} ${leftover.id.replace(/^sha256:/, "").slice(0, 24)} (run ${leftover.run})`;
}

type Listed = { Id?: string; Name?: string; Labels: Record<string, string> | null };

function toLeftover(kind: Leftover["kind"]): (listed: Listed) => Leftover {
  return ({ Id, Name, Labels }) => ({ kind, id: Id ?? Name ?? "", run: Labels?.[testLabel] ?? "" });
}

/** As scripts/engine.ts chooses: an address that is no Unix socket is not used. */
function socketPath(): string {
  return socketOfDockerHost(process.env.DOCKER_HOST ?? "") ?? DEFAULT_ENGINE_SOCKET;
}

async function list<Answer>(path: string, query: Record<string, string>): Promise<Answer | undefined> {
  return await engineJson<Answer>({ socketPath: socketPath(), method: "GET", path, query });
}

/** Gone already (404) and being removed already (409) are as good as removed; removeLeftovers looks again anyway. */
async function remove({ kind, id }: Leftover): Promise<void> {
  const query = {
    container: { force: "1", v: "1" },
    volume: { force: "1" },
    network: {},
    image: { force: "1" },
  };
  const path = `/${kind}s/${encodeURIComponent(id)}`;
  try {
    await engineJson({ socketPath: socketPath(), method: "DELETE", path, query: query[kind] });
  } catch (error) {
    if (!(error instanceof EngineError && error.status === 409)) throw error;
  }
}

/** When a process began, in the kernel's ticks; "" for one that is gone, or where there is no /proc. */
function startOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ESRCH"))
      return "";
    throw error;
  }
}
