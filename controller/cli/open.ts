/** Opens the host that the command line works on. */

import { HoldfastError } from "../../protocol/errors.ts";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { ALLOW_ALL, type PermissionAction } from "../../protocol/permission-policy.ts";
import { type Host, openHost } from "../host.ts";
import type { RelayOptions } from "../relay/routes.ts";
import type { SandboxDriver } from "../sandboxes/sandbox.ts";
import { type Setup, setUp } from "../setup.ts";
import type { SandboxKind } from "../store/records.ts";
import { type Environment, labelList } from "./environment.ts";
import { type Output, oneLine } from "./output.ts";
import { readStore } from "./read-store.ts";

export interface OpenHost {
  host: Host;
  setup: Setup;
  close(): Promise<void>;
}

/** For commands that send nothing to a model. */
export const NO_MODEL: RelayOptions = { routes: [] };

/** What this machine offers, with the labels that were asked for. */
export function commandSetup(environment: Environment): Setup {
  const { distDirectory, engineSocketPath, path, labels } = environment;
  const list = labelList(labels);
  return setUp({
    distDirectory,
    engineSocketPath,
    path,
    labels,
    environment: list === "" ? {} : { HOLDFAST_LABELS: list },
  });
}

export async function openCommandHost(options: {
  environment: Environment;
  output: Output;
  relay: RelayOptions;
}): Promise<OpenHost> {
  const { environment, output } = options;
  const setup = commandSetup(environment);
  try {
    const host = await openHost({
      directory: environment.storeDirectory,
      ...(environment.storeUrl === null ? {} : { storeUrl: environment.storeUrl }),
      ...(environment.hostId === null ? {} : { hostId: environment.hostId }),
      takeOver: environment.takeOver,
      drivers: await reachable({ environment, setup, output }),
      relay: options.relay,
      variables: environment.variables,
      onWarning: (what, detail) => output.progress(`holdfast: ${oneLine(`${what}: ${detail}`)}`),
    });
    return {
      host,
      setup,
      async close() {
        await host.close();
        setup.close();
      },
    };
  } catch (error) {
    setup.close();
    throw error;
  }
}

/** Containers are left out where no engine answers, which is worth a word only when the store has some. */
async function reachable(options: {
  environment: Environment;
  setup: Setup;
  output: Output;
}): Promise<readonly SandboxDriver[]> {
  const { environment, setup, output } = options;
  const hasContainers =
    readStore(environment, (store) =>
      store.sandboxes().some(({ kind, wanted }) => kind === "docker" && wanted !== "removed"),
    ) ?? false;
  const hasEngine = await setup.engine.ping();
  if (!hasEngine && hasContainers) {
    output.progress("note: no container engine answers: sandboxes that are containers can't be reached");
  }
  const docker = setup.drivers.find(({ kind }) => kind === "docker");
  const isBuilt = hasContainers || ((await docker?.pinned().then(Boolean, () => false)) ?? false);
  return hasEngine && isBuilt ? setup.drivers : setup.drivers.filter((driver) => driver !== docker);
}

/** The kind that was asked for, or the better one that is to be had here. Throws what is missing. */
export async function chooseKind(
  asked: string | undefined,
  setup: Setup,
  output: Output,
): Promise<SandboxKind> {
  if (asked !== undefined && asked !== "docker" && asked !== "process") {
    throw new HoldfastError("USAGE", `--sandbox takes docker or process, not "${asked}"`);
  }
  const hasEngine = asked !== "process" && (await setup.engine.ping());
  if (asked === "docker" && !hasEngine) throw new HoldfastError("ENGINE_MISSING");
  const kind = hasEngine ? "docker" : "process";
  const driver = setup.drivers.find((candidate) => candidate.kind === kind);
  if (driver === undefined) {
    throw new HoldfastError(
      "IMAGE_MISSING",
      asked === "process"
        ? "nothing was built here for process sandboxes: `npm run image -- --bundle-only` does it, without an engine."
        : "no container engine answers, and nothing was built here for process sandboxes: `npm start` sees to both.",
    );
  }
  const { imageId } = await driver.pinned();
  if (imageId !== null && (await setup.engine.call("GET", `/images/${imageId}/json`)).status === 404) {
    throw new HoldfastError("IMAGE_MISSING", "the sandbox image that was built here is not in this engine");
  }
  if (kind === "process") output.progress("note: a process sandbox isolates nothing; the agent runs as you");
  return kind;
}

/** The settings of a member that the command line makes: a model of the protocol that the CLI speaks. */
export function memberOptions(cli: CliName, model: string, action: PermissionAction = "allow") {
  return {
    model: { name: model, protocol: PROTOCOL_OF_CLI[cli], contextTokens: 128_000, outputTokens: 8192 },
    permissions: { ...ALLOW_ALL, default: action },
    background: false,
  };
}
