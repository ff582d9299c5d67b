/**
 * A sandbox's container as a fault meets it: found by its own id, looked at and struck from the host, past the controller
 * and, as far as it goes, past the engine, which may be away.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { engineJson } from "../../sandbox-image/engine-http.ts";

export interface PlaceProcess {
  /** On the host. */
  pid: number;
  uid: number;
  command: string;
}

export interface Place {
  readonly containerId: string;
  /** Everything that runs in it now; [] when it does not run. Works without the engine. */
  processes(): PlaceProcess[];
  /** The one process that fits, or null. */
  find(fits: (process: PlaceProcess) => boolean): PlaceProcess | null;
  /** A file of the container, past its engine; "" when there is none, or the container does not run. */
  read(path: string): string;
  list(path: string): string[];
  /** The user to whom a path belongs, or null. */
  ownerOf(path: string): number | null;
  write(path: string, text: string): void;
  /** By its engine. */
  isRunning(): Promise<boolean>;
  kill(): Promise<void>;
  remove(): Promise<void>;
  pause(): Promise<void>;
  unpause(): Promise<void>;
}

export const isBridge = ({ command }: PlaceProcess): boolean => command.startsWith("/opt/holdfast/node ");

export function placeOf(socketPath: string, containerId: string): Place {
  /** Each process of a container is in a control group of the container's name. */
  function processes(): PlaceProcess[] {
    return pids().flatMap((pid) => {
      if (!read(`/proc/${pid}/cgroup`).includes(containerId)) return [];
      const found = processOf(pid);
      return found === null ? [] : [found];
    });
  }

  function root(): string | null {
    const [first] = processes();
    return first === undefined ? null : `/proc/${first.pid}/root`;
  }

  async function ask(step: string, json?: unknown): Promise<void> {
    await engineJson({ socketPath, method: "POST", path: `/containers/${containerId}/${step}`, json });
  }

  return {
    containerId,
    processes,
    find: (fits) => processes().find(fits) ?? null,
    read: (path) => {
      const at = root();
      return at === null ? "" : read(at + path);
    },
    list: (path) => {
      const at = root();
      return at !== null && existsSync(at + path) ? readdirSync(at + path) : [];
    },
    ownerOf(path) {
      const at = root();
      return at !== null && existsSync(at + path) ? statSync(at + path).uid : null;
    },
    write(path, text) {
      const at = root();
      if (at === null) throw new Error("the container does not run");
      writeFileSync(at + path, text);
    },
    async isRunning() {
      const found = await engineJson<{ State: { Running: boolean } }>({
        socketPath,
        method: "GET",
        path: `/containers/${containerId}/json`,
      });
      return found?.State.Running ?? false;
    },
    kill: () => ask("kill"),
    async remove() {
      await engineJson({
        socketPath,
        method: "DELETE",
        path: `/containers/${containerId}`,
        query: { force: "1", v: "1" },
      });
    },
    pause: () => ask("pause"),
    unpause: () => ask("unpause"),
  };
}

function pids(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function processOf(pid: number): PlaceProcess | null {
  const status = read(`/proc/${pid}/status`);
  if (status === "" || /^State:\s+[ZX]/m.test(status)) return null;
  const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
  return { pid, uid, command: read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() };
}

/** "" for what is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH" || code === "ENOTDIR" || code === "EISDIR") return "";
    throw error;
  }
}
