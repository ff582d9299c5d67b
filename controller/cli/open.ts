/** Opens the host that the command line works on. */
import { HoldfastError } from "../../protocol/errors.ts";
import { type Host, openHost } from "../host.ts";
import type { ModelRoute } from "../relay/forwarder.ts";
import { type Setup, setUp } from "../setup.ts";
import type { SandboxKind } from "../store/records.ts";
import type { Environment } from "./environment.ts";
import type { Output } from "./output.ts";

export interface OpenHost {
  host: Host;
  setup: Setup;
  close(): Promise<void>;
}

/** A route for commands that send nothing to a model. */
export const NO_MODEL: ModelRoute = { baseUrl: "http://127.0.0.1:9", key: null };

export async function openCommandHost(options: {
  environment: Environment;
  output: Output;
  route: ModelRoute;
  directory?: string;
}): Promise<OpenHost> {
  const { environment, output } = options;
  const setup = setUp({
    distDirectory: environment.distDirectory,
    engineSocketPath: environment.engineSocketPath,
    path: environment.path,
  });
  try {
    const host = await openHost({
      directory: options.directory ?? environment.storeDirectory,
      drivers: setup.drivers,
      model: options.route,
      onWarning: (what, detail) => output.progress(`holdfast: ${what}: ${detail}`),
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

/** The kind that was asked for, or the better one that is to be had here. Throws what is missing. */
export async function chooseKind(
  asked: string | undefined,
  setup: Setup,
  output: Output,
): Promise<SandboxKind> {
  if (asked !== undefined && asked !== "docker" && asked !== "process") {
    throw new HoldfastError("USAGE", `--sandbox takes docker or process, not ${asked}`);
  }
  const hasEngine = asked !== "process" && (await setup.engine.ping());
  if (asked === "docker" && !hasEngine) throw new HoldfastError("ENGINE_MISSING");
  const kind = hasEngine ? "docker" : "process";
  const driver = setup.drivers.find((candidate) => candidate.kind === kind);
  if (driver === undefined) {
    throw new HoldfastError(
      "IMAGE_MISSING",
      "the bridge was not bundled here: run `npm run image -- --bundle-only`",
    );
  }
  await driver.pinned();
  if (kind === "process") output.progress("note: a process sandbox isolates nothing; the agent runs as you");
  return kind;
}
