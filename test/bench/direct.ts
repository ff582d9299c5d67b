// The host's side of the direct client: puts it into a container of the sandbox image, with the very hardening that
// Holdfast's driver gives (the driver itself makes it, only its entry point is another), or starts it as a process.
import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { PLACEHOLDER_KEY } from "../../bridge/drivers/environment.ts";
import { OPENCODE } from "../../bridge/drivers/opencode/traits.ts";
import { launchEnvironment, PROVIDER } from "../../bridge/drivers/serve/launch-plan.ts";
import { DOCKER_DEFAULTS, dockerSandboxes } from "../../controller/sandboxes/docker.ts";
import { type EngineApi, openEngine } from "../../controller/sandboxes/engine-api.ts";
import type { MemberPolicy } from "../../protocol/permission-policy.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import type { BenchContext, Place } from "./bench.ts";
import { startSilent } from "./children.ts";
import { MEMBER } from "./member.ts";
import type { DirectConfig, DirectWord } from "./parts/direct-client.ts";
import type { Scope } from "./scope.ts";

const CLIENT = fileURLToPath(new URL("./parts/direct-client.ts", import.meta.url));
const MOUNT = "/run/holdfast";
const ENTRY = [
  "/usr/bin/tini",
  "--",
  "/opt/holdfast/node",
  `${MOUNT}/direct-client.ts`,
  `${MOUNT}/direct.json`,
];
const IN_IMAGE = {
  at: MOUNT,
  slot: "/home/slots/direct",
  workspace: "/workspace",
  user: { uid: 20_001, gid: 20_000 },
};
const WORD_MS = 60_000;

export interface DirectClient {
  /** From the container's creation, or the process's spawn, to a session with a live stream. */
  readyMs: number;
  /** `replyMs`: from each permission asked to the server's own word that the reply took effect. */
  turn(text: string): Promise<{ ms: number; text: string; replyMs: number[] }>;
  /** Container, or process on this machine, in which all of it runs. */
  root: { containerId: string } | { pid: number };
}

/** @param name of its folder, and of its container */
export async function startDirect(
  context: BenchContext,
  options: { scope: Scope; place: Place; name: string; modelUrl: string; permissions?: MemberPolicy },
): Promise<DirectClient> {
  const { scope, place, name, permissions = MEMBER.permissions } = options;
  const directory = join(context.directory, name);
  await mkdir(directory, { mode: 0o700 });
  await copyFile(CLIENT, join(directory, "direct-client.ts"));
  await writeFile(join(directory, "direct.json"), JSON.stringify(configOf(place, directory, permissions)));
  await listen(scope, join(directory, "model.sock"), pipeTo(Number(new URL(options.modelUrl).port)));
  const words = await hear(scope, join(directory, "ctl.sock"));
  if (place.kind === "process") await mkdir(join(directory, "workspace"), { mode: 0o700 });

  const beganMs = performance.now();
  let lastWords = async () => "";
  let root: DirectClient["root"];
  if (place.kind === "container") {
    const started = await startContainer(context, scope, place, { name, directory });
    lastWords = started.lastWords;
    root = { containerId: started.containerId };
  } else {
    const paths = ["direct-client.ts", "direct.json"].map((file) => join(directory, file));
    root = { pid: startSilent({ scope, command: [context.node, ...paths] }).pid ?? 0 };
  }
  await words.next("ready").catch(async (error: unknown) => {
    throw new Error(`${String(error)}\n${await lastWords()}`);
  });
  const readyMs = performance.now() - beganMs;
  return {
    readyMs,
    root,
    async turn(text) {
      words.say(text);
      const word = await words.next("turn");
      return { ms: word.ms, text: word.text, replyMs: word.replyMs };
    },
  };
}

/** As `bridge/slots.ts` and the launch plan have it, so that the CLI runs under the same conditions. */
function configOf(place: Place, directory: string, permissions: MemberPolicy): DirectConfig {
  const at =
    place.kind === "container"
      ? IN_IMAGE
      : { at: directory, slot: join(directory, "slot"), workspace: join(directory, "workspace"), user: null };
  const names = ["home", "data", "config", "state", "cache"] as const;
  const paths = Object.fromEntries(names.map((name) => [name, join(at.slot, name)])) as Record<
    (typeof names)[number],
    string
  >;
  const password = randomBytes(24).toString("base64url");
  const slot = {
    ...paths,
    member: "direct",
    root: at.slot,
    workspace: at.workspace,
    user: at.user,
    mark: { kind: "environment" as const, variable: "", value: "" },
    markValue: "",
  };
  return {
    controlSocket: `${at.at}/ctl.sock`,
    modelSocket: `${at.at}/model.sock`,
    command: [...place.command, ...OPENCODE.args],
    workspace: at.workspace,
    directories: [at.slot, ...Object.values(paths)],
    user: at.user,
    environment: launchEnvironment({
      traits: OPENCODE,
      slot,
      launch: { cli: "opencode", ...MEMBER, permissions, digest: "0".repeat(64) },
      modelUrl: "@INLET@",
      modelKey: PLACEHOLDER_KEY,
      password,
      path: "", // its own, as the client finds it
    }),
    userName: OPENCODE.userName,
    password,
    provider: PROVIDER,
    model: MEMBER.model.name,
  };
}

async function startContainer(
  context: BenchContext,
  scope: Scope,
  place: Extract<Place, { kind: "container" }>,
  { name, directory }: { name: string; directory: string },
): Promise<{ containerId: string; lastWords: () => Promise<string> }> {
  const engine = openEngine(place.engineSocketPath);
  scope.defer(() => engine.close());
  const driver = dockerSandboxes({
    engine: withEntry(engine),
    imageRecordPath: place.imageRecordPath,
    labels: { [testLabel]: context.run },
    limits: {},
    commands: {},
    ...DOCKER_DEFAULTS,
  });
  const spec = { sandboxId: `bench-${process.pid}-${name}`, storeId: "bench", generation: 1, directory };
  const { containerId } = await driver.create(spec);
  scope.defer(() => driver.remove(spec, containerId));
  await driver.start(spec, containerId);
  return { containerId, lastWords: () => driver.logTail(spec, containerId) };
}

/** The engine, but a container that is made over it runs the direct client. */
function withEntry(engine: EngineApi): EngineApi {
  return {
    ...engine,
    call: (method, path, options = {}) =>
      path.startsWith("/containers/create")
        ? engine.call(method, path, { ...options, body: { ...(options.body as object), Entrypoint: ENTRY } })
        : engine.call(method, path, options),
  };
}

// --- sockets

async function listen(scope: Scope, path: string, take: (socket: Socket) => void): Promise<Server> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    socket.on("error", () => socket.destroy());
    take(socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  await chmod(path, 0o600);
  scope.defer(async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return server;
}

function pipeTo(port: number): (near: Socket) => void {
  return (near) => {
    const far = connect(port, "127.0.0.1");
    near.pipe(far).pipe(near);
    near.on("close", () => far.destroy());
    far.on("error", () => near.destroy());
  };
}

type WordOf<K extends DirectWord["kind"]> = Extract<DirectWord, { kind: K }>;

interface Words {
  next<K extends DirectWord["kind"]>(kind: K): Promise<WordOf<K>>;
  say(text: string): void;
}

/** Listens for the client, which dials. */
async function hear(scope: Scope, path: string): Promise<Words> {
  const waiting: DirectWord[] = [];
  let wake: () => void = () => undefined;
  let client: Socket | null = null;
  await listen(scope, path, (socket) => {
    client = socket;
    const add = (word: DirectWord) => {
      waiting.push(word);
      wake();
    };
    createInterface({ input: socket }).on("line", (line) => add(JSON.parse(line) as DirectWord));
    socket.once("close", () => add({ kind: "failed", why: "the direct client is gone" }));
  });
  return {
    say: (text) => void client?.write(`${JSON.stringify(text)}\n`),
    async next<K extends DirectWord["kind"]>(kind: K) {
      const deadline = performance.now() + WORD_MS;
      while (waiting.length === 0) {
        const leftMs = deadline - performance.now();
        if (leftMs <= 0) throw new Error(`the direct client said no "${kind}" in ${WORD_MS} ms`);
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, leftMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      const word = waiting.shift() as DirectWord;
      if (word.kind !== kind) throw new Error(`the direct client said ${JSON.stringify(word)}`);
      return word as WordOf<K>;
    },
  };
}
