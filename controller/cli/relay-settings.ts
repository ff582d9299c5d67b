/**
 * The ways to the models that the options name: one provider by its address, or a file with several routes. Keys come from
 * files or variables, and stand in neither the options nor that file.
 */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import { OurId } from "../../protocol/ids.ts";
import { ModelProtocol } from "../../protocol/model-protocol.ts";
import { parsedJson } from "../parsed-json.ts";
import { RELAY_DEFAULTS, type RelayLimits } from "../relay/limits.ts";
import { everyProtocol, type RelayOptions } from "../relay/routes.ts";
import { text, type Values } from "./command.ts";
import { type ModelRoute, readRoute } from "./environment.ts";

export interface ModelSettings {
  relay: RelayOptions;
  /** Name of the route; undefined for the protocol's first. */
  route: string | undefined;
  model: string;
}

/** A file of routes, beside which other files are named relative to it. */
const RoutesFile = z.strictObject({
  routes: z
    .array(
      z.strictObject({
        name: OurId,
        protocol: ModelProtocol,
        baseUrl: z.string(),
        keyFile: z.optional(z.string().check(z.minLength(1))),
        keyVariable: z.optional(z.string().check(z.minLength(1))),
        headers: z.optional(z.record(z.string(), z.string())),
      }),
    )
    .check(z.minLength(1), z.maxLength(100)),
  caFile: z.optional(z.string().check(z.minLength(1))),
  proxy: z.optional(z.string()),
  limits: z.optional(z.partial(z.strictObject(limitShapes()))),
});

function limitShapes(): Record<keyof RelayLimits, z.ZodMiniNumber> {
  const names = Object.keys(RELAY_DEFAULTS) as Array<keyof RelayLimits>;
  return Object.fromEntries(names.map((name) => [name, z.number()])) as Record<
    keyof RelayLimits,
    z.ZodMiniNumber
  >;
}

/** The model that the options name, or null when they name none. Throws USAGE or REQUEST_INVALID. */
export function readModel(values: Values, variables: NodeJS.ProcessEnv): ModelSettings | null {
  const relay = readRelay(values, variables);
  const model = text(values, "model");
  if (relay === null) {
    if (model === undefined) return null;
    throw new HoldfastError("USAGE", "--model needs --base-url or --routes");
  }
  if (model === undefined || model === "")
    throw new HoldfastError(
      "USAGE",
      `${text(values, "routes") === undefined ? "--base-url" : "--routes"} needs --model`,
    );
  return { relay, route: text(values, "route"), model };
}

/** The ways to the models alone, for a member that has its model; null when none is named. */
export function readRelay(values: Values, variables: NodeJS.ProcessEnv): RelayOptions | null {
  const file = text(values, "routes");
  if (file === undefined) {
    if (text(values, "route") !== undefined) throw new HoldfastError("USAGE", "--route needs --routes");
    const route = readRoute(values, variables);
    return route === null ? null : relayOf(route);
  }
  const other = ["base-url", "key-file", "key-variable", "ca-file", "proxy"].find(
    (name) => text(values, name) !== undefined,
  );
  if (other !== undefined) throw new HoldfastError("USAGE", `--${other} and --routes exclude one another`);
  return readRoutes(file);
}

/** One provider, by whichever protocol it is asked. */
export function relayOf({ baseUrl, key, upstream }: ModelRoute): RelayOptions {
  return { routes: everyProtocol({ baseUrl, key }), upstream };
}

function readRoutes(path: string): RelayOptions {
  const refuse = (why: string, cause?: unknown) =>
    new HoldfastError("REQUEST_INVALID", `the file of routes ${path} ${why}`, { cause });
  let given: string;
  try {
    given = readFileSync(path, "utf8");
  } catch (error) {
    throw refuse("can't be read", error);
  }
  const parsed = RoutesFile.safeParse(parsedJson(given));
  // What is wrong is said by its place, and not by what stands there.
  if (!parsed.success)
    throw refuse(`can't be like this (${parsed.error.issues[0]?.path.join(".") || "no JSON object"})`);
  const { routes, caFile, proxy, limits } = parsed.data;
  const beside = (name: string) => resolve(dirname(path), name);
  return {
    routes: routes.map(({ keyFile, keyVariable, headers, ...route }) => {
      if (keyFile !== undefined && keyVariable !== undefined)
        throw refuse(`names two keys for ${route.name}`);
      const file = keyFile === undefined ? null : { file: beside(keyFile) };
      return {
        ...route,
        key: keyVariable === undefined ? file : { variable: keyVariable },
        ...(headers === undefined ? {} : { headers }),
      };
    }),
    upstream: {
      ...(caFile === undefined ? {} : { caFile: beside(caFile) }),
      ...(proxy === undefined ? {} : { proxy }),
    },
    ...(limits === undefined ? {} : { limits: limits as Partial<RelayLimits> }),
  };
}
