/** A host for tests: its own store in a temporary folder, the loopback model, everything ended and removed afterwards. */
import { mkdtemp, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { type Host, type HostOptions, openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import { type Setup, setUp } from "../../controller/setup.ts";
import type { MemberOptions, SandboxKind } from "../../controller/store/records.ts";
import type { DriverLimits } from "../../protocol/bridge-config.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import { type ModelServer, startModelServer } from "./model/server.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
export const MODEL_KEY = "loopback-model-key";

export interface TestHost {
  host: Host;
  setup: Setup;
  model: ModelServer;
  directory: string;
  warnings: string[];
  /** Closes this host and opens another one over the same store, as a restarted controller would; in `between` it is away. */
  reopen(between?: () => Promise<void>): Promise<Host>;
}

export interface TestHostOptions {
  /** Pinned version of Claude Code in `process` sandboxes. Default: the one that the image ships. */
  claude?: string;
  limits?: Partial<DriverLimits>;
  commands?: Record<string, readonly string[]>;
  environment?: Record<string, string>;
  readOnlyRoot?: boolean;
  /** Folder of the image's record and the bundle. Default `dist`. */
  distDirectory?: string;
  /** Folder of the store, made beforehand and left alone afterwards; a Unix socket's path has 107 bytes. Default: a new one. */
  storeDirectory?: string;
  /** Default: the engine that the whole run uses. */
  engineSocketPath?: string;
  /** Puts something around the drivers of the sandboxes: to count, to tamper, to die. */
  around?: (drivers: SandboxDriver[]) => SandboxDriver[];
  residency?: HostOptions["residency"];
  /** The provider's key that the host holds, and the loopback model wants. Default: the same for all tests. */
  key?: string;
  /** Takes the end of the host. Default: the running test does; a file that shares one host keeps it for `afterAll`. */
  atEnd?: (end: () => Promise<void>, limitMs: number) => void;
}

export const MEMBER: MemberOptions = {
  model: { name: "m1", protocol: "chat-completions", contextTokens: 100_000, outputTokens: 8000 },
  permissions: ALLOW_ALL,
  background: false,
};

export async function startTestHost(given: TestHostOptions = {}): Promise<TestHost> {
  const {
    around = (drivers) => drivers,
    atEnd = onTestFinished,
    distDirectory = DIST,
    storeDirectory,
    claude,
    residency,
    key = MODEL_KEY,
    ...options
  } = given;
  // Short on purpose: a Unix socket's path has 107 bytes.
  const directory = storeDirectory ?? (await mkdtemp("/tmp/hf-"));
  const model = await startModelServer({ recall: true, expectedKey: key });
  const run = process.env.HOLDFAST_TEST_RUN ?? "none";
  const setup = setUp({
    distDirectory,
    engineSocketPath: engineSocket(process.env.DOCKER_HOST),
    path: process.env.PATH ?? "/usr/bin:/bin",
    labels: { [testLabel]: run },
    versions: claude === undefined ? {} : { claude },
    ...options,
    // The marks with which a stray process of a test is found.
    environment: { HOLDFAST_TEST_RUN: run, ...options.environment },
  });
  const warnings: string[] = [];
  const drivers = around(setup.drivers);
  const open = () =>
    openHost({
      directory,
      drivers,
      relay: { routes: everyProtocol({ baseUrl: model.url, key }) },
      ...(residency === undefined ? {} : { residency }),
      onWarning: (what, detail) => warnings.push(`${what}: ${detail}`),
    });
  const opened: TestHost = {
    host: await open(),
    setup,
    model,
    directory,
    warnings,
    async reopen(between = async () => undefined) {
      await opened.host.close();
      try {
        await between();
      } finally {
        opened.host = await open();
      }
      return opened.host;
    },
  };
  atEnd(async () => {
    for (const { id } of opened.host.sandboxes()) await opened.host.removeSandbox(id);
    await opened.host.close();
    setup.close();
    await model.close();
    if (storeDirectory === undefined) await rm(directory, { recursive: true, force: true });
  }, 60_000);
  return opened;
}

/** The end of what the bridge of each sandbox printed, for a test that failed. */
export async function logTails({ host, setup }: TestHost): Promise<string> {
  const tails = host.sandboxes().map(async ({ id, kind, generation, directory, container }) => {
    const driver = setup.drivers.find((each) => each.kind === kind);
    if (driver === undefined || container === null) return `── ${id}: not made yet`;
    const spec = { storeId: host.store.id, sandboxId: id, generation, directory };
    const text = await driver.logTail(spec, container.containerId).catch((error: unknown) => String(error));
    return `── ${id}, last lines of its bridge:\n${text.trim().split("\n").slice(-30).join("\n")}`;
  });
  return `${(await Promise.all(tails)).join("\n")}\n`;
}

/** A sandbox with one OpenCode member. */
export function createMember(
  host: Host,
  kind: SandboxKind,
  options: Partial<MemberOptions> = {},
): { sandbox: string; member: string } {
  const sandbox = host.createSandbox({ kind }).id;
  const member = host.createMember({ sandbox, cli: "opencode", ...MEMBER, ...options }).id;
  return { sandbox, member };
}
