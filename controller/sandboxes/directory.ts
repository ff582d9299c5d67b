/**
 * The host's directory of one sandbox: two sockets, the token, the bridge's configuration. Mounted read-only into the
 * container, so nothing in it can be swapped for a link from inside; owner-only, so nobody else on the host can dial.
 */
import { randomBytes } from "node:crypto";
import { lstat, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { BridgeConfig } from "../../protocol/bridge-config.ts";
import { HoldfastError, storageFault } from "../../protocol/errors.ts";

/** A Unix socket's path, Linux. Beyond it `listen` fails with a message that names no path. */
const SOCKET_PATH_BYTES = 107;
const TOKEN = /^[0-9a-f]{64}$/;

export interface SandboxPaths {
  directory: string;
  controllerSocket: string;
  modelSocket: string;
}

/** @param root the host's own directory; paths below it must fit a Unix socket */
export function sandboxPaths(root: string, sandboxId: string): SandboxPaths {
  const directory = join(root, "s", sandboxId);
  const controllerSocket = join(directory, "ctl.sock");
  const modelSocket = join(directory, "model.sock");
  if (Buffer.byteLength(modelSocket) > SOCKET_PATH_BYTES) {
    throw new HoldfastError(
      "REQUEST_INVALID",
      `the path ${modelSocket} is longer than ${SOCKET_PATH_BYTES} bytes: choose a shorter store`,
    );
  }
  return { directory, controllerSocket, modelSocket };
}

/** Root's directory is closed to all others; another user's lets the bridge in by group. */
export function directoryModes(): { directory: number; file: number } {
  return process.getuid?.() === 0 ? { directory: 0o700, file: 0o600 } : { directory: 0o710, file: 0o660 };
}

export async function makeSandboxDirectory(paths: SandboxPaths): Promise<void> {
  await mkdir(paths.directory, { recursive: true, mode: directoryModes().directory });
  await checkSandboxDirectory(paths.directory);
}

/**
 * The folder is what this host made, or missing (then false). What an agent of a `process` sandbox put in its place is
 * neither written nor removed: behind a link it is somebody else's. Throws SANDBOX_FOREIGN.
 */
export async function checkSandboxDirectory(directory: string): Promise<boolean> {
  for (const path of [dirname(directory), directory]) {
    const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw new HoldfastError("STORE_ERROR", `${path} can't be looked at`, { cause: error });
    });
    if (found === null) return false;
    if (!found.isDirectory() || found.uid !== (process.getuid?.() ?? found.uid))
      throw new HoldfastError("SANDBOX_FOREIGN", `${path} is no folder of this host's`);
  }
  return true;
}

/** The sandbox's token: made once, and the same after every restart of either side. */
export async function sandboxToken(paths: Pick<SandboxPaths, "directory">): Promise<string> {
  const path = join(paths.directory, "token");
  try {
    const known = (await readFile(path, "utf8")).trim();
    if (TOKEN.test(known)) return known;
    throw new HoldfastError("STORE_ERROR", "the sandbox's token is not one that this host made");
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      throw new HoldfastError("STORE_ERROR", "the sandbox's token can't be read", { cause: error });
    }
  }
  const token = randomBytes(32).toString("hex");
  await replaceFile(path, `${token}\n`);
  return token;
}

export async function writeBridgeConfig(paths: SandboxPaths, config: BridgeConfig): Promise<void> {
  await replaceFile(join(paths.directory, "bridge.json"), `${JSON.stringify(config, null, 2)}\n`);
}

export async function removeSandboxDirectory(paths: SandboxPaths): Promise<void> {
  if (await checkSandboxDirectory(paths.directory))
    await rm(paths.directory, { recursive: true, force: true });
}

async function replaceFile(path: string, text: string): Promise<void> {
  await checkSandboxDirectory(dirname(path));
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    // Flushed before the rename: after a power cut the name must not stand for an empty file.
    await writeFile(temporary, text, { mode: directoryModes().file, flush: true });
    await rename(temporary, path);
  } catch (cause) {
    await rm(temporary, { force: true });
    throw storageFault(`${path} can't be written`, cause);
  }
}
