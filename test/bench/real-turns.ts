// What the benches with a real OpenCode share: the model, and a host with one member.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Host, openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import { DOCKER_DEFAULTS, dockerSandboxes } from "../../controller/sandboxes/docker.ts";
import { openEngine } from "../../controller/sandboxes/engine-api.ts";
import { processSandboxes } from "../../controller/sandboxes/process.ts";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import type { MemberOptions } from "../../controller/store/records.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import type { BenchContext, Place } from "./bench.ts";
import { startAndHear } from "./children.ts";
import { MEMBER } from "./member.ts";
import type { Scope } from "./scope.ts";

const MODEL = fileURLToPath(new URL("../support/model/main.ts", import.meta.url));

/** What the model always answers, a word a chunk and without a pause: a slow model would hide what we add. */
export const REPLY: string = Array.from({ length: 40 }, (_, at) => `word${at}`).join(" ");

/** A process of its own, so that it takes no time from client or controller. Resolves to its base URL. */
export async function startModel(
  { scope, node }: BenchContext,
  scripts: ReadonlyArray<{ match: string; steps: unknown[] }> = [],
): Promise<string> {
  const { line } = await startAndHear({ scope, command: [node, MODEL] });
  const { url } = JSON.parse(line) as { url: string };
  const tell = async (verb: string, body: unknown) => {
    const answer = await fetch(new URL(`/_control/${verb}`, url), {
      method: "POST",
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`the model took no script: ${answer.status} ${await answer.text()}`);
  };
  await tell("default", { steps: [{ kind: "reply", text: REPLY }] });
  for (const script of scripts) await tell("script", script);
  return url;
}

export async function openBenchHost(
  context: BenchContext,
  options: { scope: Scope; place: Place; modelUrl: string },
): Promise<Host> {
  const { scope, place, modelUrl } = options;
  const host = await openHost({
    directory: join(context.directory, "h"),
    drivers: [driverOf(context, scope, place)],
    relay: { routes: everyProtocol({ baseUrl: modelUrl, key: null }) },
    onWarning: (what, detail) => context.say(`warning: ${what}: ${detail}`),
  });
  scope.defer(() => host.close());
  return host;
}

function driverOf(context: BenchContext, scope: Scope, place: Place): SandboxDriver {
  if (place.kind === "process") {
    return processSandboxes({
      bridgePath: context.bridgePath,
      node: context.node,
      clis: [{ cli: "opencode", version: place.version, command: place.command }],
      limits: {},
      environment: { PATH: process.env.PATH, HOLDFAST_TEST_RUN: context.run },
    });
  }
  const engine = openEngine(place.engineSocketPath);
  scope.defer(() => engine.close());
  return dockerSandboxes({
    engine,
    imageRecordPath: place.imageRecordPath,
    labels: { [testLabel]: context.run },
    limits: {},
    commands: {},
    ...DOCKER_DEFAULTS,
  });
}

/** A sandbox with one member; made, and nothing runs yet. Removed with the scope. */
export function createMember(
  host: Host,
  scope: Scope,
  place: Place,
  permissions: MemberOptions["permissions"] = MEMBER.permissions,
): string {
  const sandbox = host.createSandbox({ kind: place.kind === "container" ? "docker" : "process" }).id;
  scope.defer(() => host.removeSandbox(sandbox));
  return host.createMember({ sandbox, cli: "opencode", ...MEMBER, permissions }).id;
}

/** From the submission to the settlement, with the updates read as a caller would. Throws when it ended otherwise. */
export async function timedTurn(
  host: Host,
  member: string,
  text: string,
): Promise<{ ms: number; settlement: Settlement }> {
  const beganMs = performance.now();
  const turn = host.submit(member, text);
  let seen = "";
  for await (const update of turn)
    if (update.kind === "text") seen = seen.slice(0, update.from) + update.text;
  const settlement = await turn.settlement;
  const ms = performance.now() - beganMs;
  const { outcome, error } = settlement;
  if (outcome !== "completed" || seen !== REPLY) {
    throw new Error(`a turn ended ${outcome} with "${seen.slice(0, 80)}": ${error?.message ?? ""}`);
  }
  return { ms, settlement };
}

export function placeNote(place: Place): string {
  return place.kind === "container"
    ? "Both in containers of the sandbox image with the same hardening and no network; the direct client runs in the bridge's place."
    : `Both as plain processes: ${place.why}.`;
}
