// The few things that the build asks of an engine: look at an image, import, build, tag, read one file. Every image of
// ours is found by its labels. Decides nothing about when to build.

import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { EngineError, engineJson, engineProgress, engineRequest } from "./engine-http.ts";
import { FIRST_SLOT_UID, SLOT_GROUP } from "./layout.ts";
import { onlyFileOf, type TarEntry, tarStream } from "./tar.ts";

const IMPORT_TIMEOUT_MS = 180_000;
const BUILD_TIMEOUT_MS = 900_000;
const PULL_TIMEOUT_MS = 600_000;
const RUN_TIMEOUT_MS = 60_000;

export interface ImageFact {
  id: string;
  labels: Record<string, string>;
  sizeBytes: number;
}

/** The image of that name or id; undefined when the engine has none. */
export async function findImage(socketPath: string, reference: string): Promise<ImageFact | undefined> {
  const path = `/images/${reference}/json`;
  const found = await engineJson<{
    Id: string;
    Size: number;
    Config: { Labels: Record<string, string> | null };
  }>({
    socketPath,
    method: "GET",
    path,
  });
  return found && { id: found.Id, labels: found.Config.Labels ?? {}, sizeBytes: found.Size };
}

/** Any image with all of these labels, each `name=value` or a name alone. */
export async function findImageByLabels(
  socketPath: string,
  labels: readonly string[],
): Promise<ImageFact | undefined> {
  const query = { filters: JSON.stringify({ label: labels }) };
  const found = await engineJson<{ Id: string; Size: number; Labels: Record<string, string> | null }[]>({
    socketPath,
    method: "GET",
    path: "/images/json",
    query,
  });
  const first = found?.[0];
  return first && { id: first.Id, labels: first.Labels ?? {}, sizeBytes: first.Size };
}

export async function pullImage(socketPath: string, reference: string): Promise<void> {
  const [name, tag] = splitReference(reference);
  const query = { fromImage: name, tag };
  await engineProgress({
    socketPath,
    method: "POST",
    path: "/images/create",
    query,
    timeoutMs: PULL_TIMEOUT_MS,
  });
}

export async function importImage(
  socketPath: string,
  options: { reference: string; labels: Record<string, string>; tar: Readable },
): Promise<void> {
  const [repo, tag] = splitReference(options.reference);
  const changes = Object.entries(options.labels).map(
    ([name, value]) => `LABEL ${name}=${JSON.stringify(value)}`,
  );
  const query = new URLSearchParams({ fromSrc: "-", repo, tag });
  for (const change of changes) query.append("changes", change);
  const path = `/images/create?${query.toString()}`;
  await engineProgress({ socketPath, method: "POST", path, tar: options.tar, timeoutMs: IMPORT_TIMEOUT_MS });
}

/** Builds with the engine's own (legacy) builder, which every engine since 20.10 has, and names the result. */
export async function buildFrom(
  socketPath: string,
  options: {
    reference: string;
    buildFile: string;
    base: string;
    context: readonly TarEntry[];
    labels: Record<string, string>;
    hasNetwork: boolean;
  },
): Promise<ImageFact> {
  const buildFile: TarEntry = {
    kind: "bytes",
    path: "Dockerfile",
    mode: 0o644,
    bytes: Buffer.from(options.buildFile),
  };
  const query = {
    version: "1",
    dockerfile: "Dockerfile",
    t: options.reference,
    rm: "true",
    forcerm: "true",
    buildargs: JSON.stringify({ BASE: options.base }),
    labels: JSON.stringify(options.labels),
    ...(options.hasNetwork ? {} : { networkmode: "none" }),
  };
  const tar = Readable.from(tarStream([buildFile, ...options.context]));
  await engineProgress({
    socketPath,
    method: "POST",
    path: "/build",
    query,
    tar,
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  const built = await findImage(socketPath, options.reference);
  if (built === undefined)
    throw new EngineError(`engine: built ${options.reference} and does not know it`, 404);
  return built;
}

export async function tagImage(socketPath: string, id: string, reference: string): Promise<void> {
  const [repo, tag] = splitReference(reference);
  const path = `/images/${id}/tag`;
  const answer = await engineRequest({ socketPath, method: "POST", path, query: { repo, tag } });
  if (answer.status !== 201)
    throw new EngineError(`engine: could not name ${id} ${reference}`, answer.status);
}

/** Forgets an image that nothing uses any more; one that a container or another name needs stays. */
export async function dropImage(socketPath: string, id: string): Promise<void> {
  await engineRequest({ socketPath, method: "DELETE", path: `/images/${id}` });
}

/** One plain file of an image, by a container that is made for it, never started, and removed. */
export async function readImageFile(
  socketPath: string,
  image: string,
  path: string,
): Promise<{ bytes: Buffer; mode: number }> {
  const name = `holdfast-read-${randomBytes(6).toString("hex")}`;
  await engineJson({
    socketPath,
    method: "POST",
    path: "/containers/create",
    query: { name },
    json: {
      Image: image,
      Entrypoint: ["/none"],
      NetworkDisabled: true,
      Labels: { "dev.holdfast.image": "reader" },
    },
  });
  try {
    const query = { path };
    const answer = await engineRequest({
      socketPath,
      method: "GET",
      path: `/containers/${name}/archive`,
      query,
    });
    if (answer.status !== 200) throw new EngineError(`engine: ${image} has no ${path}`, answer.status);
    return onlyFileOf(answer.body, path);
  } finally {
    await engineRequest({
      socketPath,
      method: "DELETE",
      path: `/containers/${name}`,
      query: { force: "true" },
    });
  }
}

/** Runs one program of an image to its end, as a slot's user without a network; gives its exit code and what it said. */
export async function runInImage(
  socketPath: string,
  image: string,
  command: readonly string[],
): Promise<{ exitCode: number; output: string }> {
  const name = `holdfast-run-${randomBytes(6).toString("hex")}`;
  const json = {
    Image: image,
    Entrypoint: command,
    User: `${FIRST_SLOT_UID}:${SLOT_GROUP.gid}`,
    Env: ["HOME=/tmp"],
    // A terminal, so that the log comes as plain bytes.
    Tty: true,
    Labels: { "dev.holdfast.image": "reader" },
    HostConfig: { NetworkMode: "none", CapDrop: ["ALL"], SecurityOpt: ["no-new-privileges"] },
  };
  const path = `/containers/${name}`;
  await engineJson({ socketPath, method: "POST", path: "/containers/create", query: { name }, json });
  try {
    await engineJson({ socketPath, method: "POST", path: `${path}/start` });
    const timeoutMs = RUN_TIMEOUT_MS;
    const end = await engineJson<{ StatusCode: number }>({
      socketPath,
      method: "POST",
      path: `${path}/wait`,
      timeoutMs,
    });
    const query = { stdout: "true", stderr: "true", tail: "20" };
    const log = await engineRequest({ socketPath, method: "GET", path: `${path}/logs`, query });
    return { exitCode: end?.StatusCode ?? -1, output: log.body.toString("utf8") };
  } finally {
    await engineRequest({ socketPath, method: "DELETE", path, query: { force: "true" } });
  }
}

/** Repository and tag; the tag is `latest` when none is given. A port in the name is no tag. */
export function splitReference(reference: string): [string, string] {
  const colon = reference.lastIndexOf(":");
  if (colon <= reference.lastIndexOf("/")) return [reference, "latest"];
  return [reference.slice(0, colon), reference.slice(colon + 1)];
}
