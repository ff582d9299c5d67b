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
  /**
   * Pinned versions other than the ones that the bundle was made with, by CLI, for `process` sandboxes: a container has
   * what its image has.
   */
  versions?: Readonly<Record<string, string>>;
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
  /** What the bridge expects beside itself. */
  piExtension: z.string(),
  /** Every pinned version; of each CLI one is chosen. */
  clis: z.array(
    z.object({
      cli: z.string(),
      version: z.string(),
      command: z.array(z.string()).check(z.minLength(1)),
      isChosen: z.boolean(),
    }),
  ),
});
type Bundle = z.infer<typeof Bundle>;

/**
 * Containers always; processes when their bundle was made. Neither is started or checked here. Throws STORE_ERROR for a
 * bundle that can't be read, CLI_UNKNOWN for a version that it does not have.
 */
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
    besideBridge: [bundle.piExtension],
    clis: chosenClis(bundle, options.versions ?? {}).map(({ cli, version, command }) => ({
      cli,
      version,
      command: options.commands?.[cli] ?? command,
    })),
    limits: options.limits ?? {},
    environment: { ...options.environment, PATH: options.path },
  });
  return { drivers: [docker, plain], engine, close: () => engine.close() };
}

/** Throws CLI_UNKNOWN for a version that the bundle does not have. */
function chosenClis({ clis }: Bundle, versions: Readonly<Record<string, string>>): Bundle["clis"] {
  for (const [cli, version] of Object.entries(versions)) {
    if (!clis.some((each) => each.cli === cli && each.version === version))
      throw new HoldfastError("CLI_UNKNOWN", `${cli} ${version} is not in the bundle`);
  }
  return clis.filter(({ cli, version, isChosen }) => {
    const wanted = versions[cli];
    return wanted === undefined ? isChosen : version === wanted;
  });
}

function readBundle(path: string): Bundle | null {
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
