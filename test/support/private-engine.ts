/**
 * An engine of the test's own, to be killed and restarted as a test needs it: own data, own containerd, own bridge, all of
 * it in a memory file system that goes with it. The usual engine is only asked for the sandbox image. Needs root.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { engineJson, pingEngine } from "../../sandbox-image/engine-http.ts";
import { type ImageRecord, imageRecordSchema } from "../../sandbox-image/manifest.ts";
import { ensureEngine } from "../../scripts/engine.ts";
import { dockerdArguments, engineLayout } from "../../scripts/engine-layout.ts";
import { settlePidFile } from "../../scripts/engine-pidfile.ts";
import { DAEMON_PATH, findProgram } from "../../scripts/engine-program.ts";
import { stopOwnEngine } from "../../scripts/engine-stop.ts";
import { fillDisk, makeMemoryDisk } from "./small-disk.ts";
import { until } from "./until.ts";

const LIMIT_MS = 60_000;
const PIN_LABEL = "dev.holdfast.pin";

export const canHaveEngine: boolean = process.getuid?.() === 0;

export interface PrivateEngine {
  readonly socketPath: string;
  /** A folder with the record of the image that this engine has, in the place of `dist`. */
  readonly distDirectory: string;
  /** Takes all the room that is left for what it stores. Returns what gives it back. */
  fill(): () => void;
  /** Ends the daemon hard; its containers run on. */
  kill(): Promise<void>;
  /** Without `liveRestore` the daemon ends the containers that outlived it, when it comes up. */
  start(options: { liveRestore: boolean }): Promise<void>;
  /** Ends the engine with all it has. */
  stop(): Promise<void>;
}

export interface PrivateEngineOptions {
  /** The CLIs that its sandboxes need; the others are left out, since an image is copied byte by byte. */
  clis: readonly string[];
  /** The usual build's record. */
  recordText: string;
  /** How much all that it stores may take. Default 3 GiB. */
  sizeMiB?: number;
}

export async function startPrivateEngine(options: PrivateEngineOptions): Promise<PrivateEngine> {
  const disk = await makeMemoryDisk("hfe-", options.sizeMiB ?? 3072, (left) =>
    stopOwnEngine(join(left, "e")),
  );
  const root = disk.folder;
  const layout = engineLayout(join(root, "e"));
  const distDirectory = join(root, "dist");

  async function stop(): Promise<void> {
    if (!(await pingEngine(layout.apiSocket))) await start({ liveRestore: true });
    await stopOwnEngine(join(root, "e"));
    await disk.remove();
  }

  async function start({ liveRestore }: { liveRestore: boolean }): Promise<void> {
    settlePidFile(layout.pidFile, "dockerd");
    const args = dockerdArguments(layout, layout.containerdSocket, false);
    const log = openSync(layout.dockerdLog, "a", 0o640);
    try {
      spawn(
        findProgram("dockerd") ?? "dockerd",
        args.filter((word) => liveRestore || word !== "--live-restore"),
        { detached: true, stdio: ["ignore", log, log], cwd: "/", env: { ...process.env, PATH: DAEMON_PATH } },
      ).unref();
    } finally {
      closeSync(log);
    }
    await until("the private engine's answer", () => pingEngine(layout.apiSocket), LIMIT_MS);
  }

  try {
    await ensureEngine({ root: join(root, "e") });
    await mkdir(distDirectory);
    const record = imageRecordSchema.parse(JSON.parse(options.recordText));
    const imageId = await copyImage(record, layout.apiSocket, options.clis);
    await writeFile(join(distDirectory, "image-manifest.json"), JSON.stringify({ ...record, imageId }));
  } catch (error) {
    await stop();
    throw error;
  }

  return {
    socketPath: layout.apiSocket,
    distDirectory,
    start,
    stop,
    fill: () => fillDisk(root),
    async kill() {
      const pid = settlePidFile(layout.pidFile, "dockerd");
      if (pid === undefined) throw new Error("the private engine does not run");
      process.kill(pid, "SIGKILL");
      await until("the private engine's end", () => settlePidFile(layout.pidFile, "dockerd") === undefined);
    },
  };
}

/** The image's files as one layer under the labels that count; another id, so the record is another's too. */
async function copyImage(record: ImageRecord, socketPath: string, clis: readonly string[]): Promise<string> {
  const from = engineSocket(process.env.DOCKER_HOST);
  const labels = { "dev.holdfast.test": process.env.HOLDFAST_TEST_RUN ?? "none" };
  const made = await engineJson<{ Id: string }>({
    socketPath: from,
    method: "POST",
    path: "/containers/create",
    json: { Image: record.imageId, Labels: labels, HostConfig: { NetworkMode: "none" } },
  });
  if (made === undefined) throw new Error("the usual engine does not have the sandbox image");
  try {
    const path = `/containers/${made.Id}/export`;
    const left = record.manifest.clis.filter(({ cli }) => !clis.includes(cli));
    const changes = [
      `LABEL ${PIN_LABEL}=${JSON.stringify(record.manifest.pin)}`,
      'ENTRYPOINT ["/usr/bin/tini","--","/opt/holdfast/node","/opt/holdfast/bridge.cjs"]',
      "ENV LANG=C.UTF-8",
    ];
    const query = new URLSearchParams({ fromSrc: "-", repo: "holdfast/private", tag: "dev" });
    for (const change of changes) query.append("changes", change);
    const body = without(
      await bodyOf(from, path),
      left.map(({ cli }) => `opt/holdfast/clis/${cli}`),
    );
    await upload(socketPath, `/images/create?${query.toString()}`, body);
  } finally {
    await engineJson({
      socketPath: from,
      method: "DELETE",
      path: `/containers/${made.Id}`,
      query: { force: "1" },
    });
  }
  const image = await engineJson<{ Id: string }>({
    socketPath,
    method: "GET",
    path: "/images/holdfast/private:dev/json",
  });
  if (image === undefined) throw new Error("the private engine did not take the image");
  return image.Id;
}

function bodyOf(socketPath: string, path: string): Promise<Readable> {
  return new Promise((resolve, reject) => {
    request({ socketPath, path, headers: { host: "engine" }, timeout: LIMIT_MS }, (answer) => {
      if (answer.statusCode === 200) resolve(answer);
      else reject(new Error(`${path} answered ${answer.statusCode}`));
    })
      .once("error", reject)
      .end();
  });
}

function without(archive: Readable, folders: readonly string[]): Readable {
  if (folders.length === 0) return archive;
  const filter = spawn("tar", ["--delete", "-f", "-", ...folders], { stdio: ["pipe", "pipe", "ignore"] });
  archive.pipe(filter.stdin);
  return filter.stdout;
}

function upload(socketPath: string, path: string, body: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { host: "engine", "content-type": "application/x-tar" };
    const call = request({ socketPath, path, method: "POST", headers, timeout: LIMIT_MS }, (answer) => {
      answer.resume().once("end", () => {
        if (answer.statusCode === 200) resolve();
        else reject(new Error(`the import answered ${answer.statusCode}`));
      });
    });
    call.once("error", reject);
    body.pipe(call);
  });
}
