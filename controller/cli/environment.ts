/**
 * What the command line takes from its surroundings: folders, the engine's address, the model's route. Beside `main.ts`
 * the only file that reads the environment.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ModelRoute } from "../relay/forwarder.ts";
import { engineSocket } from "../sandboxes/engine-api.ts";
import { text, type Values } from "./command.ts";

export interface Environment {
  /** Folder of the store. */
  storeDirectory: string;
  engineSocketPath: string;
  /** The checkout's or package's own folder. */
  root: string;
  distDirectory: string;
  path: string;
  /** Node that runs us, for programs that we start. */
  node: string;
  variables: NodeJS.ProcessEnv;
}

export function readEnvironment(values: Values, variables: NodeJS.ProcessEnv): Environment {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const dataHome = variables.XDG_DATA_HOME ?? join(variables.HOME ?? homedir(), ".local", "share");
  const given = text(values, "store") ?? variables.HOLDFAST_STORE;
  return {
    storeDirectory: given === undefined ? join(dataHome, "holdfast") : resolve(given),
    engineSocketPath: engineSocket(variables.DOCKER_HOST),
    root,
    distDirectory: join(root, "dist"),
    path: variables.PATH ?? "/usr/bin:/bin",
    node: process.execPath,
    variables,
  };
}

export interface ModelSettings {
  route: ModelRoute;
  model: string;
}

/** The model that the options name, or null when they name none. Throws USAGE or REQUEST_INVALID. */
export function readModel(values: Values): ModelSettings | null {
  const baseUrl = text(values, "base-url");
  const model = text(values, "model");
  const keyFile = text(values, "key-file");
  if (baseUrl === undefined) {
    if (model === undefined && keyFile === undefined) return null;
    throw new HoldfastError("USAGE", "--model and --key-file need --base-url");
  }
  if (model === undefined) throw new HoldfastError("USAGE", "--base-url needs --model");
  if (!/^https?:$/.test(URL.parse(baseUrl)?.protocol ?? "")) {
    throw new HoldfastError("REQUEST_INVALID", `${baseUrl} is no http or https URL`);
  }
  return { route: { baseUrl, key: keyFile === undefined ? null : readKey(keyFile) }, model };
}

/** The key is read from a file that only its owner may read: never from argv, which every process can see. */
function readKey(path: string): string {
  if (!existsSync(path)) throw new HoldfastError("REQUEST_INVALID", `the key file ${path} does not exist`);
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new HoldfastError("REQUEST_INVALID", `the key file ${path} can be read by others: chmod 600 it`);
  }
  const key = readFileSync(path, "utf8").trim();
  if (key === "" || /\s/.test(key))
    throw new HoldfastError("REQUEST_INVALID", `the key file ${path} holds no single key`);
  return key;
}
