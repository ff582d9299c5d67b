// A PostgreSQL server of the test's own: real, on a free port of the loopback, with its data in a folder that goes with it.
// It refuses to run as root, so it then runs as the user that Debian's package made.
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { postgresFolder } from "../../scripts/postgres-program.ts";
import { until } from "./until.ts";

const LIMIT_MS = 60_000;
const USER = "holdfast";
/** Looked for in everything that is told or kept. */
export const PASSWORD = "canary-postgres-4711";

export interface PostgresServer {
  readonly port: number;
  /** Of a database; the server begins with one named `postgres`. */
  url(database?: string, password?: string): string;
  /** Rows of a statement by a connection of its own. */
  look(
    sql: string,
    values?: unknown[],
    database?: string,
    schema?: string,
  ): Promise<Array<Record<string, unknown>>>;
  /** Ends it hard, its children too, as a loss of power would. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Its own and those of its connections. */
  processes(): number[];
  /** Stops and continues every process of it. */
  freeze(): void;
  thaw(): void;
  /** Ends it and removes its folder. */
  remove(): Promise<void>;
}

/** @param options.isDurable false leaves out fsync: for tests that kill no server */
export async function startPostgres({
  isDurable = true,
}: {
  isDurable?: boolean;
} = {}): Promise<PostgresServer> {
  const programs = postgresFolder();
  if (programs === undefined)
    throw new Error("no PostgreSQL server here: node scripts/test-programs.ts brings it");
  const folder = mkdtempSync(join(tmpdir(), "hfpg-"));
  const data = join(folder, "data");
  const identity = process.getuid?.() === 0 ? { uid: idOf("-u"), gid: idOf("-g") } : {};
  if (identity.uid !== undefined) chownSync(folder, identity.uid, identity.gid);
  chmodSync(folder, 0o700);
  const secret = join(folder, "password");
  writeFileSync(secret, PASSWORD, { mode: 0o644 });
  // What is inherited names no other server.
  const env = { ...process.env, LC_ALL: "C.UTF-8" };
  execFileSync(
    join(programs, "initdb"),
    [
      "-D",
      data,
      "-U",
      USER,
      "-E",
      "UTF8",
      "--no-sync",
      "--auth-local=trust",
      "--auth-host=scram-sha-256",
      `--pwfile=${secret}`,
    ],
    { ...identity, env, cwd: "/", stdio: ["ignore", "ignore", "pipe"] },
  );
  const port = await freePort();
  let server: ChildProcess | null = null;

  const url = (database = "postgres", password = PASSWORD) =>
    `postgres://${USER}:${password}@127.0.0.1:${port}/${database}`;

  async function look(sql: string, values: unknown[] = [], database?: string, schema = "holdfast") {
    const client = new pg.Client({ connectionString: url(database), options: `-c search_path=${schema}` });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query(sql, values)).rows as Array<Record<string, unknown>>;
    } finally {
      await client.end();
    }
  }

  async function start(): Promise<void> {
    const settings = [
      "listen_addresses=127.0.0.1",
      `unix_socket_directories=${folder}`,
      "shared_buffers=16MB",
      "max_connections=60",
      "dynamic_shared_memory_type=mmap",
      `fsync=${isDurable ? "on" : "off"}`,
    ];
    server = spawn(
      join(programs ?? "", "postgres"),
      ["-D", data, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])],
      { ...identity, env, cwd: "/", stdio: "ignore" },
    );
    await until(
      "the PostgreSQL server's answer",
      () =>
        look("SELECT 1").then(
          () => true,
          () => false,
        ),
      LIMIT_MS,
    );
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const ending = server;
    server = null;
    if (ending === null || ending.exitCode !== null || ending.signalCode !== null) return;
    const exit = once(ending, "exit");
    ending.kill(signal);
    await exit;
  }

  /** The server's own processes: it starts one a connection, and some for its upkeep. */
  function processes(): number[] {
    const leader = server?.pid;
    if (leader === undefined) return [];
    const words = spawnSync("ps", ["-o", "pid=", "--ppid", String(leader)], { encoding: "utf8" }).stdout;
    return [leader, ...words.split("\n").flatMap((line) => (line.trim() === "" ? [] : [Number(line)]))];
  }

  function signal(pids: readonly number[], name: NodeJS.Signals): void {
    for (const pid of pids)
      try {
        process.kill(pid, name);
      } catch {
        // It ended in the meantime.
      }
  }

  await start();
  return {
    port,
    url,
    look,
    async kill() {
      const children = processes().slice(1);
      await end("SIGKILL");
      signal(children, "SIGKILL");
    },
    start,
    processes,
    freeze: () => signal(processes(), "SIGSTOP"),
    thaw: () => signal(processes(), "SIGCONT"),
    async remove() {
      // At once: what a polite end would write goes with the folder.
      await end("SIGQUIT");
      removeSharedMemory(join(data, "postmaster.pid"));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A server that was killed and not started again leaves its file, which names a segment that nothing else removes. */
function removeSharedMemory(pidFile: string): void {
  if (!existsSync(pidFile)) return;
  const [, , , , , , segment = ""] = readFileSync(pidFile, "utf8").split("\n");
  const [, id = ""] = segment.trim().split(/\s+/);
  if (/^\d+$/.test(id)) spawnSync("ipcrm", ["-m", id], { stdio: "ignore" });
}

function idOf(flag: "-u" | "-g"): number {
  return Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("the loopback gave no port");
  return address.port;
}
