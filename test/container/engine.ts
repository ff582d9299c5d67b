/** The engine as these tests use it behind the controller's back: to look, to tamper, to derive images. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { Readable } from "node:stream";
import { onTestFinished } from "vitest";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import {
  EngineError,
  type EngineRequest,
  engineJson,
  engineRequest,
} from "../../sandbox-image/engine-http.ts";
import { runInImage } from "../../sandbox-image/image-store.ts";
import { onlyFileOf, type TarEntry, tarStream } from "../../sandbox-image/tar.ts";
import { testLabel } from "../../scripts/leftovers.ts";

export const engineSocketPath = engineSocket(process.env.DOCKER_HOST);
const socketPath = engineSocketPath;
const run = process.env.HOLDFAST_TEST_RUN ?? "none";
const LIMIT_MS = 60_000;

export interface Inspected {
  Id: string;
  Name: string;
  Image: string;
  State: { Running: boolean; Pid: number; StartedAt: string; ExitCode: number };
  Config: Record<string, unknown> & { Labels: Record<string, string> | null };
  HostConfig: Record<string, unknown> & { Binds: string[] | null };
}

type Call = Omit<EngineRequest, "socketPath">;

async function ask<Answer>(call: Call): Promise<Answer | undefined> {
  return engineJson<Answer>({ socketPath, timeoutMs: LIMIT_MS, ...call });
}

/** Undefined when there is no such container. */
export function inspectContainer(id: string): Promise<Inspected | undefined> {
  return ask<Inspected>({ method: "GET", path: `/containers/${id}/json` });
}

export async function present(id: string): Promise<Inspected> {
  const found = await inspectContainer(id);
  if (found === undefined) throw new Error(`there is no container ${id}`);
  return found;
}

export async function removeContainer(id: string): Promise<void> {
  await ask({ method: "DELETE", path: `/containers/${id}`, query: { force: "1", v: "1" } });
}

/** Makes a container as it is described; it is removed when the test ends. */
export async function createContainer(body: object, name?: string): Promise<string> {
  const query = name === undefined ? {} : { name: name.replace(/^\//, "") };
  const made = await ask<{ Id: string }>({ method: "POST", path: "/containers/create", query, json: body });
  if (made === undefined) throw new Error("the engine does not know the image");
  onTestFinished(() => removeContainer(made.Id));
  return made.Id;
}

/** The same container anew, under the same name, with something changed. */
export async function recreate(id: string, change: (found: Inspected) => object): Promise<string> {
  const found = await present(id);
  await removeContainer(id);
  return createContainer(
    { ...found.Config, Image: found.Image, HostConfig: found.HostConfig, ...change(found) },
    found.Name,
  );
}

/** Puts files into a container's own layer. Works before the first start. */
export async function putFiles(id: string, entries: readonly TarEntry[]): Promise<void> {
  const tar = Readable.from(tarStream(entries));
  const path = `/containers/${id}/archive`;
  const answer = await engineRequest({ socketPath, method: "PUT", path, query: { path: "/" }, tar });
  if (answer.status !== 200) throw new EngineError(answer.body.toString("utf8"), answer.status);
}

export async function fileOf(id: string, path: string): Promise<Buffer> {
  const answer = await engineRequest({
    socketPath,
    method: "GET",
    path: `/containers/${id}/archive`,
    query: { path },
  });
  if (answer.status !== 200) throw new EngineError(answer.body.toString("utf8"), answer.status);
  return onlyFileOf(answer.body, path).bytes;
}

/**
 * An image of the container, with labels changed. It carries the run's label, and not those by which the build finds its
 * own images again.
 */
export async function commit(id: string, labels: Record<string, string>): Promise<string> {
  const made = await ask<{ Id: string }>({
    method: "POST",
    path: "/commit",
    query: { container: id, pause: "0" },
    json: {
      Labels: { "dev.holdfast.image": "test", "dev.holdfast.inputs": "test", [testLabel]: run, ...labels },
    },
  });
  const image = made?.Id ?? "";
  onTestFinished(() => removeImage(image));
  return image;
}

export async function removeImage(id: string): Promise<void> {
  await ask({ method: "DELETE", path: `/images/${id}`, query: { force: "1" } });
}

/** Runs a command of an image as a slot's user, without a network: its exit code and its lines. */
export async function runOnce(
  image: string,
  command: readonly string[],
): Promise<{ exitCode: number; lines: string[] }> {
  const { exitCode, output } = await runInImage(socketPath, image, command);
  return { exitCode, lines: output.split("\n").map((line) => line.trim()) };
}

/** A container that only serves to make an image of. */
export function scratchContainer(image: string): Promise<string> {
  return createContainer({ Image: image, Labels: { [testLabel]: run }, HostConfig: { NetworkMode: "none" } });
}

/** The image with that label, or null. */
export async function imageWithLabels(labels: readonly string[]): Promise<string | null> {
  const filters = JSON.stringify({ label: labels });
  const found = await ask<Array<{ Id: string }>>({ method: "GET", path: "/images/json", query: { filters } });
  return found?.[0]?.Id ?? null;
}

export async function labelsOfImage(image: string): Promise<Record<string, string>> {
  const found = await ask<{ Config: { Labels: Record<string, string> | null } }>({
    method: "GET",
    path: `/images/${image}/json`,
  });
  return found?.Config.Labels ?? {};
}

export interface ContainerProcess {
  /** On the host. */
  pid: number;
  uid: number;
  command: string;
}

export async function processesIn(id: string): Promise<ContainerProcess[]> {
  const query = { ps_args: "-eo pid,uid,args" };
  const top = await ask<{ Processes: string[][] }>({ method: "GET", path: `/containers/${id}/top`, query });
  return (top?.Processes ?? []).map(([pid = "", uid = "", ...args]) => ({
    pid: Number(pid),
    uid: Number(uid),
    command: args.join(" "),
  }));
}

/** The one process of the container whose command line fits. */
export async function processIn(id: string, fits: (command: string) => boolean): Promise<ContainerProcess> {
  const all = await processesIn(id);
  const [first, ...more] = all.filter(({ command }) => fits(command));
  if (first === undefined || more.length > 0)
    throw new Error(`none or several of: ${all.map(({ command }) => command).join(", ")}`);
  return first;
}

/** Of a process of the container, read on the host: its environment, its command line, its user, the ports of its container. */
export function procFile(pid: number, name: "environ" | "cmdline" | "status" | "net/tcp"): string {
  return readFileSync(`/proc/${pid}/${name}`, "utf8");
}

/** Reads the container's whole file system once, and gives those of the texts that are in it. */
export function textsInFileSystem(id: string, texts: readonly string[]): Promise<string[]> {
  const needles = texts.map((text) => Buffer.from(text));
  const overlap = Math.max(...needles.map(({ length }) => length)) - 1;
  const found = new Set<string>();
  return new Promise((resolve, reject) => {
    const call = request(
      {
        socketPath,
        path: `/containers/${id}/export`,
        headers: { host: "engine" },
        signal: AbortSignal.timeout(LIMIT_MS),
      },
      (answer) => {
        let tail = Buffer.alloc(0);
        let bytes = 0;
        answer.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          const window = Buffer.concat([tail, chunk]);
          for (const [at, needle] of needles.entries())
            if (window.includes(needle)) found.add(texts[at] ?? "");
          tail = window.subarray(Math.max(0, window.length - overlap));
        });
        answer.once("error", reject);
        answer.once("end", () => {
          if (answer.statusCode !== 200 || bytes < 1e6) reject(new Error(`the export gave ${bytes} bytes`));
          else resolve([...found]);
        });
      },
    );
    call.once("error", reject);
    call.end();
  });
}

/** Stops and starts it as its operator would, behind the controller's back. */
export async function restart(id: string): Promise<void> {
  await ask({ method: "POST", path: `/containers/${id}/restart`, query: { t: "20" } });
}

/** `docker stop` with nothing said about its grace. */
export async function stopByOperator(id: string): Promise<void> {
  await ask({ method: "POST", path: `/containers/${id}/stop` });
}

/** Gives an image a name, taken from whatever had it; the name is gone when the test ends. */
export async function tagged(image: string, name: string): Promise<void> {
  const [repo = "", tag = ""] = name.split(":");
  await ask({ method: "POST", path: `/images/${image}/tag`, query: { repo, tag } });
  onTestFinished(async () => {
    await ask({ method: "DELETE", path: `/images/${name}`, query: { noprune: "1" } });
  });
}

/** An answer as it comes: an export, an image, a log. Rejects when the engine refuses. */
export function engineStream(path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(LIMIT_MS);
    const call = request({ socketPath, path, headers: { host: "engine" }, signal }, (answer) => {
      if (answer.statusCode === 200) resolve(answer);
      else reject(new Error(`${path}: ${answer.statusCode}`));
    });
    call.once("error", reject);
    call.end();
  });
}

/** The digest of each plain file below a folder of the container, by its path there. */
export async function digestsOf(id: string, path: string): Promise<Map<string, string>> {
  const answer = await engineRequest({
    socketPath,
    method: "GET",
    path: `/containers/${id}/archive`,
    query: { path },
  });
  if (answer.status !== 200) throw new EngineError(answer.body.toString("utf8"), answer.status);
  const digests = new Map<string, string>();
  const { body } = answer;
  for (let at = 0; at + 512 <= body.length && body[at] !== 0; ) {
    const field = (from: number, length: number) =>
      body
        .subarray(at + from, at + from + length)
        .toString("utf8")
        .replace(/\0.*$/s, "");
    const bytes = Number.parseInt(field(124, 12), 8);
    const content = body.subarray(at + 512, at + 512 + bytes);
    // What a plain name can't hold stands before it in an entry of its own: its digest tells it apart all the same.
    digests.set(`${at} ${field(0, 100)}`, createHash("sha256").update(content).digest("hex"));
    at += 512 + Math.ceil(bytes / 512) * 512;
  }
  return digests;
}
