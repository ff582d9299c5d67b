/**
 * Sandboxes as containers, through the Engine API. Hardened by default (no measured cost): no new privileges, no
 * capabilities but the bridge's four, limits on processes and memory, no network. The writable layer is retained.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as z from "zod/mini";
import { DEFAULT_LIMITS, type DriverLimits } from "../../protocol/bridge-config.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { parsedJson } from "../parsed-json.ts";
import { type EngineApi, engineValue, expectOk } from "./engine-api.ts";
import { codeChanges, LayerChanges } from "./layer-changes.ts";
import type { PinnedBuild, SandboxDriver, SandboxSpec } from "./sandbox.ts";
import { plainFileOf } from "./tar-file.ts";
import { freeUidRange, type UidRange, uidRangeOf } from "./uid-range.ts";

/** Where things are in the image; the build and the bridge use the same paths. */
const IN_IMAGE = {
  mount: "/run/holdfast",
  bridge: "/opt/holdfast/bridge.cjs",
  manifest: "/opt/holdfast/manifest.json",
  state: "/var/lib/holdfast",
  slots: "/home/slots",
  workspace: "/workspace",
} as const;
const SLOT_GID = 20_000;
/** The list of changes names each file of the writable layer: some three million. Beyond: ENGINE_MISSING, not started. */
const CHANGES_BYTES = 256 * 1024 * 1024;
const LABEL = "dev.holdfast.sandbox";
const STORE_LABEL = "dev.holdfast.store";
/** First user of the sandbox's slots. */
const UID_LABEL = "dev.holdfast.first-uid";
/** Where a sandbox with a read-only root can write: the engine makes a volume of its own for each, owned as in the image. */
const VOLUMES: readonly string[] = [IN_IMAGE.state, IN_IMAGE.slots, IN_IMAGE.workspace];
/** A volume that the engine named itself: nobody else's. */
const OWN_VOLUME = /^[0-9a-f]{64}$/;
/** Containers made in a row that met another controller's with the same users. Beyond: OVERLOADED. */
const RANGE_TRIES = 8;

export interface DockerOptions {
  engine: EngineApi;
  /** `dist/image-manifest.json`, written by the image build. */
  imageRecordPath: string;
  /** Further labels, for tests and for whoever cleans up. */
  labels: Readonly<Record<string, string>>;
  limits: Partial<DriverLimits>;
  pids: number;
  memoryBytes: number;
  /** Nothing can be written but the bridge's state, the slots and the workspace, which are volumes. */
  readOnlyRoot: boolean;
  /** Commands in the place of the image's CLIs, for stand-ins. */
  commands: Readonly<Record<string, readonly string[]>>;
}

export const DOCKER_DEFAULTS = { pids: 1024, memoryBytes: 4 * 1024 ** 3, readOnlyRoot: false } as const;

const ImageRecord = z.object({
  imageId: z.string(),
  manifestSha256: z.string(),
  manifest: z.object({
    files: z.array(z.object({ path: z.string(), sha256: z.string() })),
    clis: z.array(
      z.object({
        cli: z.enum(["opencode", "kilo", "claude", "codex", "pi"]),
        version: z.string(),
        command: z.array(z.string()).check(z.minLength(1)),
      }),
    ),
  }),
});

const Inspected = z.object({
  Image: z.string(),
  State: z.object({ Running: z.boolean(), ExitCode: z.optional(z.number()) }),
  Mounts: z.array(
    z.object({
      Type: z.optional(z.string()),
      Name: z.optional(z.string()),
      Destination: z.string(),
      RW: z.boolean(),
      Source: z.optional(z.string()),
    }),
  ),
  Config: z.object({ Labels: z.nullable(z.record(z.string(), z.string())) }),
});
const Created = z.object({ Id: z.string().check(z.minLength(1)) });
const Listed = z.object({ Id: z.string(), Labels: z.record(z.string(), z.string()), State: z.string() });
const InspectedImage = z.object({
  Config: z.object({ Labels: z.nullable(z.record(z.string(), z.string())) }),
});

export function dockerSandboxes(options: DockerOptions): SandboxDriver {
  const { engine } = options;
  /** Creations, one after the other: two at once would be given the same users. */
  let lastCreation: Promise<unknown> = Promise.resolve();

  async function imageRecord(): Promise<z.infer<typeof ImageRecord>> {
    let text: string;
    try {
      text = await readFile(options.imageRecordPath, "utf8");
    } catch (cause) {
      throw new HoldfastError("IMAGE_MISSING", "no sandbox image was built here", { cause });
    }
    const parsed = ImageRecord.safeParse(parsedJson(text));
    if (!parsed.success)
      throw new HoldfastError("IMAGE_MISSING", "the record of the image build can't be read");
    return parsed.data;
  }

  async function pinned(): Promise<PinnedBuild> {
    const record = await imageRecord();
    const bridge = record.manifest.files.find(({ path }) => path === IN_IMAGE.bridge);
    if (bridge === undefined)
      throw new HoldfastError("IMAGE_MISSING", "the image's manifest names no bridge");
    return {
      helperSha256: bridge.sha256,
      imageId: record.imageId,
      manifestSha256: record.manifestSha256,
      clis: record.manifest.clis,
      environment: [],
    };
  }

  async function inspect(containerId: string): Promise<z.infer<typeof Inspected> | null> {
    const answer = await engine.call("GET", `/containers/${containerId}/json`);
    if (answer.status === 404) return null;
    return engineValue("inspect the container", answer, Inspected);
  }

  /** False when it is gone. Whatever does not carry this store's labels is not ours to touch. Throws SANDBOX_FOREIGN. */
  async function isOurs(spec: SandboxSpec, containerId: string): Promise<boolean> {
    const found = await inspect(containerId);
    if (found === null) return false;
    const labels = found.Config.Labels ?? {};
    if (labels[LABEL] === spec.sandboxId && labels[STORE_LABEL] === spec.storeId) return true;
    throw new HoldfastError("SANDBOX_FOREIGN", `the container ${containerId} carries other labels`);
  }

  /** Digest of a file in the container's own file system, or why it can't be trusted. */
  async function measureFile(
    containerId: string,
    path: string,
  ): Promise<{ sha256: string } | { problem: string }> {
    const answer = await engine.call(
      "GET",
      `/containers/${containerId}/archive?path=${encodeURIComponent(path)}`,
    );
    if (answer.status === 404) return { problem: `${path} is missing` };
    try {
      expectOk(`read ${path}`, answer);
      return { sha256: createHash("sha256").update(plainFileOf(answer.body)).digest("hex") };
    } catch (error) {
      if (error instanceof HoldfastError) return { problem: error.message };
      throw error;
    }
  }

  /** The layers below are the image's, which is known by its id. */
  async function changedCode(containerId: string): Promise<string[]> {
    const answer = await engine.call("GET", `/containers/${containerId}/changes`, {
      answerBytes: CHANGES_BYTES,
    });
    return codeChanges(engineValue("list the changes", answer, LayerChanges));
  }

  async function pinLabel(imageId: string): Promise<string | null> {
    const answer = await engine.call("GET", `/images/${imageId}/json`);
    if (answer.status === 404) return null;
    const image = engineValue("inspect the image", answer, InspectedImage);
    return image.Config.Labels?.["dev.holdfast.pin"] ?? null;
  }

  async function listed(label: string): Promise<Array<z.infer<typeof Listed>>> {
    const filters = encodeURIComponent(JSON.stringify({ label: [label] }));
    const answer = await engine.call("GET", `/containers/json?all=true&filters=${filters}`);
    return engineValue("list the containers", answer, z.array(Listed));
  }

  /** Makes the container with users that no other sandbox of this engine has, whichever store that one belongs to. */
  async function createApart(spec: SandboxSpec, imageId: string): Promise<string> {
    for (let tries = 0; tries < RANGE_TRIES; tries += 1) {
      const taken = (await listed(LABEL)).map(({ Labels }) => Labels[UID_LABEL]);
      const range = freeUidRange(taken, Math.floor(Math.random() * 2 ** tries));
      if (range === null) break;
      const answer = await engine.call("POST", `/containers/create?name=${containerName(spec)}`, {
        body: createBody(spec, imageId, range, options),
      });
      if (answer.status === 404) throw new HoldfastError("IMAGE_MISSING");
      const { Id } = engineValue("create the container", answer, Created);
      // Another controller may have looked at the same time as we did.
      const others = (await listed(`${UID_LABEL}=${range.firstUid}`)).filter((other) => other.Id !== Id);
      if (others.length === 0) return Id;
      await remove(Id);
    }
    throw new HoldfastError("OVERLOADED", "no range of users is free on this engine: remove sandboxes");
  }

  async function remove(containerId: string): Promise<void> {
    const answer = await engine.call("DELETE", `/containers/${containerId}?force=true&v=true`, {
      limitMs: 60_000,
    });
    if (answer.status !== 404) expectOk("remove the container", answer);
  }

  return {
    kind: "docker",
    hasImage: true,
    pinned,
    async bridgeConfig(spec, containerId) {
      const { manifest } = await imageRecord();
      const found = await inspect(containerId);
      if (found === null) throw new HoldfastError("CONTEXT_LOST", "the container is gone");
      return {
        storeId: spec.storeId,
        sandboxId: spec.sandboxId,
        isolation: "container",
        controllerSocket: `${IN_IMAGE.mount}/ctl.sock`,
        modelSocket: `${IN_IMAGE.mount}/model.sock`,
        tokenFile: `${IN_IMAGE.mount}/token`,
        stateDirectory: IN_IMAGE.state,
        slotsDirectory: IN_IMAGE.slots,
        workspace: IN_IMAGE.workspace,
        users: { ...uidRangeOf(found.Config.Labels?.[UID_LABEL]), gid: SLOT_GID },
        clis: manifest.clis.map(({ cli, version, command }) => ({
          cli,
          version,
          command: [...(options.commands[cli] ?? command)],
        })),
        limits: { ...DEFAULT_LIMITS, ...options.limits },
      };
    },
    async create(spec) {
      const { imageId } = await pinned();
      const creation = lastCreation.then(() => createApart(spec, imageId ?? ""));
      lastCreation = creation.catch(() => undefined /* its caller is told */);
      return { containerId: await creation, imageId: imageId ?? "" };
    },
    async start(spec, containerId) {
      await isOurs(spec, containerId);
      expectOk(
        "start the container",
        await engine.call("POST", `/containers/${containerId}/start`, { limitMs: 60_000 }),
      );
    },
    async stop(spec, containerId, graceMs) {
      if (!(await isOurs(spec, containerId))) return null;
      const seconds = Math.max(1, Math.ceil(graceMs / 1000));
      const answer = await engine.call("POST", `/containers/${containerId}/stop?t=${seconds}`, {
        limitMs: graceMs + 30_000,
      });
      if (answer.status === 404) return null;
      expectOk("stop the container", answer);
      return (await inspect(containerId))?.State.ExitCode ?? null;
    },
    async remove(spec, containerId) {
      if (await isOurs(spec, containerId)) await remove(containerId);
    },
    async state(_, containerId) {
      const found = await inspect(containerId);
      if (found === null) return "missing";
      return found.State.Running ? "running" : "stopped";
    },
    async measure(spec, containerId) {
      const found = await inspect(containerId);
      if (found === null) throw new HoldfastError("CONTEXT_LOST", "the container is gone");
      const [helper, manifest, label, changed] = await Promise.all([
        measureFile(containerId, IN_IMAGE.bridge),
        measureFile(containerId, IN_IMAGE.manifest),
        pinLabel(found.Image),
        changedCode(containerId),
      ]);
      const isForeign = (mount: (typeof found.Mounts)[number]) =>
        (mount.Destination !== IN_IMAGE.mount || mount.RW || mount.Source !== spec.directory) &&
        !(options.readOnlyRoot && isStateVolume(mount));
      // The container's own label is checked with the image's: a container can be made with another one.
      const own = found.Config.Labels?.["dev.holdfast.pin"] ?? null;
      return {
        imageId: found.Image,
        pinLabel: own === label ? label : `image: ${label ?? "none"}, container: ${own ?? "none"}`,
        helper,
        manifest,
        foreignMounts: found.Mounts.filter(isForeign).map((mount) => mount.Destination),
        changedCode: changed,
      };
    },
    async list(storeId) {
      return (await listed(`${STORE_LABEL}=${storeId}`)).map(({ Id, Labels, State }) => ({
        sandboxId: Labels[LABEL] ?? "",
        containerId: Id,
        wasStarted: State !== "created",
      }));
    },
    async logTail(_, containerId) {
      const answer = await engine.call("GET", `/containers/${containerId}/logs?stdout=1&stderr=1&tail=50`);
      return answer.status === 200 ? withoutStreamHeaders(answer.body) : "";
    },
  };
}

function containerName(spec: SandboxSpec): string {
  return `holdfast-${spec.sandboxId}-${spec.generation}`;
}

function isStateVolume({ Type, Name, Destination }: z.infer<typeof Inspected>["Mounts"][number]): boolean {
  return Type === "volume" && VOLUMES.includes(Destination) && OWN_VOLUME.test(Name ?? "");
}

/**
 * What a stop by somebody else gives the bridge, when it says nothing itself. The engine's usual 10 s are used up by the
 * abort of a CLI that does not answer (public case P32).
 */
const STOP_SECONDS = 60;

function createBody(spec: SandboxSpec, imageId: string, users: UidRange, options: DockerOptions): unknown {
  const isRoot = process.getuid?.() === 0;
  return {
    Image: imageId,
    Labels: {
      ...options.labels,
      [LABEL]: spec.sandboxId,
      [STORE_LABEL]: spec.storeId,
      [UID_LABEL]: String(users.firstUid),
    },
    StopTimeout: STOP_SECONDS,
    ...(options.readOnlyRoot ? { Volumes: Object.fromEntries(VOLUMES.map((path) => [path, {}])) } : {}),
    HostConfig: {
      ReadonlyRootfs: options.readOnlyRoot,
      // The directory and not the socket file: a new socket of a restarted controller must be seen inside.
      Binds: [`${spec.directory}:${IN_IMAGE.mount}:ro`],
      NetworkMode: "none",
      CapDrop: ["ALL"],
      CapAdd: ["SETUID", "SETGID", "CHOWN", "KILL"],
      SecurityOpt: ["no-new-privileges"],
      PidsLimit: options.pids,
      Memory: options.memoryBytes,
      MemorySwap: options.memoryBytes,
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: { "max-size": "5m", "max-file": "2" } },
      ...(isRoot ? {} : { GroupAdd: [String(process.getgid?.() ?? 0)] }),
    },
  };
}

/** The engine's log stream puts eight bytes before each piece: the stream's number and a length. */
function withoutStreamHeaders(body: Buffer): string {
  const pieces: string[] = [];
  let at = 0;
  while (at + 8 <= body.length) {
    const size = body.readUInt32BE(at + 4);
    pieces.push(body.toString("utf8", at + 8, at + 8 + size));
    at += 8 + size;
  }
  return pieces.join("");
}
