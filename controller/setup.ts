/**
 * The usual host of a source checkout or an installed package: which sandboxes it offers, from what the image build left
 * in `dist/`. Tests and the command line build their hosts here, so there is one way to do it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import type { DriverLimits } from "../protocol/bridge-config.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { parsedJson } from "./parsed-json.ts";
import { DOCKER_DEFAULTS, dockerSandboxes } from "./sandboxes/docker.ts";
import { type EngineApi, openEngine } from "./sandboxes/engine-api.ts";
import { processSandboxes } from "./sandboxes/process.ts";
import type { SandboxDriver } from "./sandboxes/sandbox.ts";

export interface SetupOptions {
  /** Folder with `image-manifest.json` (containers) and `bundle.json` (processes). */
  distDirectory: string;
  engineSocketPath: string;
  /** Search path that a `process` sandbox's bridge and CLIs get. */
  path: string;
  /** Labels for containers, beside our own. */
  labels?: Readonly<Record<string, string>>;
  limits?: Partial<DriverLimits>;
  /** Containers can write to their state, their slots and their workspace only. Default false. */
  readOnlyRoot?: boolean;
  /** Commands in the place of pinned CLIs (stand-ins), by CLI. */
  commands?: Readonly<Record<string, readonly string[]>>;
  /** Variables for the bridge's process in a `process` sandbox, beside the search path. */
  environment?: Readonly<Record<string, string>>;
}

export interface Setup {
  drivers: SandboxDriver[];
  engine: EngineApi;
  close(): void;
}

const Bundle = z.object({
  node: z.string(),
  bridge: z.string(),
  clis: z.array(z.object({ cli: z.string(), version: z.string(), binary: z.string() })),
});

/** Containers always; processes when their bundle was made. Neither is started or checked here. */
export function setUp(options: SetupOptions): Setup {
  const engine = openEngine(options.engineSocketPath);
  const docker = dockerSandboxes({
    engine,
    imageRecordPath: join(options.distDirectory, "image-manifest.json"),
    labels: options.labels ?? {},
    limits: options.limits ?? {},
    commands: options.commands ?? {},
    ...DOCKER_DEFAULTS,
    ...(options.readOnlyRoot === undefined ? {} : { readOnlyRoot: options.readOnlyRoot }),
  });
  const bundle = readBundle(join(options.distDirectory, "bundle.json"));
  if (bundle === null) return { drivers: [docker], engine, close: () => engine.close() };
  const plain = processSandboxes({
    bridgePath: bundle.bridge,
    node: bundle.node,
    clis: bundle.clis.map(({ cli, version, binary }) => ({
      cli,
      version,
      command: options.commands?.[cli] ?? [binary],
    })),
    limits: options.limits ?? {},
    environment: { ...options.environment, PATH: options.path },
  });
  return { drivers: [docker, plain], engine, close: () => engine.close() };
}

function readBundle(path: string): z.infer<typeof Bundle> | null {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw new HoldfastError("STORE_ERROR", `${path} can't be read`, { cause: error });
  }
  const parsed = Bundle.safeParse(parsedJson(text));
  if (parsed.success) return parsed.data;
  throw new HoldfastError(
    "STORE_ERROR",
    `${path} does not describe a bundle: run \`npm run image -- --bundle-only\``,
  );
}
