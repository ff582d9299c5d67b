/**
 * What the command line takes from its surroundings: folders, the engine's address, the model's route. Beside `main.ts`
 * the only file that reads the environment.
 */
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { HoldfastError } from "../../protocol/errors.ts";
import { OurId } from "../../protocol/ids.ts";
import { type KeySource, readKey } from "../relay/key-source.ts";
import type { UpstreamOptions } from "../relay/upstream.ts";
import { engineSocket } from "../sandboxes/engine-api.ts";
import { text, type Values } from "./command.ts";

export interface Environment {
  /** Folder of the store and of the sandboxes' sockets. */
  storeDirectory: string;
  /** Of a store in a PostgreSQL database; null for one in the folder. It may hold a password. */
  storeUrl: string | null;
  /** The store is taken from a controller that hangs. */
  /** Name of this host in a database that several share; null: the default. */
  hostId: string | null;
  takeOver: boolean;
  engineSocketPath: string;
  /** The checkout's or package's own folder. */
  root: string;
  distDirectory: string;
  path: string;
  /** Marks for what is made here: labels of containers, and `HOLDFAST_LABELS` of the bridges of `process` sandboxes. */
  labels: Readonly<Record<string, string>>;
  /** Node that runs us, for programs that we start. */
  node: string;
  variables: NodeJS.ProcessEnv;
}

const SETTINGS: readonly string[] = [
  "HOLDFAST_STORE",
  "HOLDFAST_STORE_URL",
  "HOLDFAST_HOST_ID",
  "HOLDFAST_DIST",
  "HOLDFAST_LABELS",
];
/** Set by programs around this one: the checkout's checks, the script of their engine, a slot when this runs inside of one. */
const NO_SETTING =
  /^HOLDFAST_(TEST_[A-Z_]+|MATRIX_[A-Z]+|SKIP_CONTAINERS|ENGINE_ROOT|SLOT|MODEL_KEY|PI_SETUP)$/;

/**
 * HOLDFAST_STORE: folder of the store. HOLDFAST_STORE_URL: the PostgreSQL database that it is in. HOLDFAST_HOST_ID: name of
 * this host there. HOLDFAST_LABELS: `name=value,name=value`. DOCKER_HOST: the engine, where it is a Unix socket.
 * HOLDFAST_DIST: what the image build wrote. Throws USAGE for one that is empty, wrong or unknown, also
 * where an option stands in its place; DOCKER_HOST and the system's own count as not set when they are empty.
 */
export function readEnvironment(values: Values, variables: NodeJS.ProcessEnv): Environment {
  refuseStrange(variables);
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const dataHome = variables.XDG_DATA_HOME || join(variables.HOME || homedir(), ".local", "share");
  const given = text(values, "store");
  if (given === "") throw new HoldfastError("USAGE", "--store needs a folder");
  const named = given ?? variables.HOLDFAST_STORE;
  const storeUrl = readStoreUrl(values, variables);
  return {
    storeDirectory: named === undefined ? join(dataHome, "holdfast") : resolve(named),
    storeUrl,
    hostId: readHostId(text(values, "host-id") ?? variables.HOLDFAST_HOST_ID, storeUrl),
    takeOver: values["take-over"] === true,
    engineSocketPath: engineSocket(variables.DOCKER_HOST),
    root,
    distDirectory: variables.HOLDFAST_DIST ? resolve(variables.HOLDFAST_DIST) : join(root, "dist"),
    path: variables.PATH || "/usr/bin:/bin",
    labels: readLabels(variables.HOLDFAST_LABELS ?? ""),
    node: process.execPath,
    variables,
  };
}

/** An argument is seen by everybody on the machine, a variable by its owner. */
function readStoreUrl(values: Values, variables: NodeJS.ProcessEnv): string | null {
  const given = text(values, "store-url");
  if (given === undefined) return variables.HOLDFAST_STORE_URL ?? null;
  const url = URL.parse(given);
  if (url === null) throw new HoldfastError("USAGE", "--store-url needs postgres://USER@HOST:PORT/DATABASE");
  if (url.password !== "" || url.searchParams.has("password"))
    throw new HoldfastError(
      "USAGE",
      "--store-url takes an address without a password, which everybody could see: use HOLDFAST_STORE_URL, PGPASSWORD or a .pgpass file",
    );
  return given;
}

function readHostId(id: string | undefined, storeUrl: string | null): string | null {
  if (id === undefined) return null;
  if (!OurId.safeParse(id).success)
    throw new HoldfastError("USAGE", "a host's id is letters, digits, '.', '-' and '_', at most 128");
  if (storeUrl === null)
    throw new HoldfastError("USAGE", "a host's id is of a store that hosts share: name its --store-url too");
  return id;
}

/** A slip in a name, or a value that a script lost, must not pass as the default. */
function refuseStrange(variables: NodeJS.ProcessEnv): void {
  for (const [name, value] of Object.entries(variables)) {
    if (!name.startsWith("HOLDFAST_") || NO_SETTING.test(name)) continue;
    if (!SETTINGS.includes(name)) {
      throw new HoldfastError("USAGE", `${name} sets nothing here; there are ${SETTINGS.join(", ")}`);
    }
    if (value === "") throw new HoldfastError("USAGE", `${name} is empty: give it a value, or unset it`);
  }
}

function readLabels(list: string): Record<string, string> {
  const pairs = list.split(",").filter((pair) => pair !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at <= 0) throw new HoldfastError("USAGE", `HOLDFAST_LABELS takes name=value, not "${pair}"`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** The labels in the form in which they were read. */
export function labelList(labels: Environment["labels"]): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

/** A provider, by whichever of the protocols it is asked. */
export interface ModelRoute {
  baseUrl: string;
  key: string | null;
  upstream: UpstreamOptions;
}

/** The one provider that `--base-url` names, with its key; null when it names none. Throws USAGE, REQUEST_INVALID. */
export function readRoute(values: Values, variables: NodeJS.ProcessEnv = process.env): ModelRoute | null {
  const baseUrl = text(values, "base-url");
  if (baseUrl === undefined) {
    const other = ["key-file", "key-variable", "ca-file", "proxy"].find(
      (name) => text(values, name) !== undefined,
    );
    if (other === undefined) return null;
    throw new HoldfastError("USAGE", `--${other} needs --base-url`);
  }
  const url = URL.parse(baseUrl);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new HoldfastError("REQUEST_INVALID", `${withoutSecrets(baseUrl)} is no http or https URL`);
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new HoldfastError(
      "REQUEST_INVALID",
      `a base URL is an address alone (${url.origin}${url.pathname}): a key belongs into a file, see --key-file`,
    );
  }
  return { baseUrl, key: readKey(keySource(values), variables), upstream: readUpstream(values) };
}

function keySource(values: Values): KeySource {
  const file = text(values, "key-file");
  const variable = text(values, "key-variable");
  if (file === undefined) return variable === undefined ? null : { variable };
  if (variable === undefined) return { file };
  throw new HoldfastError("USAGE", "--key-file and --key-variable exclude one another");
}

function readUpstream(values: Values): UpstreamOptions {
  const caFile = text(values, "ca-file");
  const proxy = text(values, "proxy");
  const url = proxy === undefined ? null : URL.parse(proxy);
  if (url !== null && (url.username !== "" || url.password !== ""))
    throw new HoldfastError(
      "REQUEST_INVALID",
      "--proxy takes an address without a password, which everybody could see: name it in a file, see --routes",
    );
  return { ...(caFile === undefined ? {} : { caFile }), ...(proxy === undefined ? {} : { proxy }) };
}

/** Somebody may have put a key into the address. */
function withoutSecrets(address: string): string {
  return address.replace(/[?#].*$/s, "").replace(/\/\/[^/]*@/, "//");
}
