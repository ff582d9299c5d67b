// The host's side of the direct client: puts it into a container of the sandbox image, with the very hardening that
// Holdfast's driver gives (the driver itself makes it, only its entry point is another), or starts it as a process.
import { randomBytes } from "node:crypto";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { OPENCODE } from "../../bridge/drivers/opencode/traits.ts";
import { launchEnvironment, PROVIDER } from "../../bridge/drivers/serve/launch-plan.ts";
import type { Slot } from "../../bridge/slots.ts";
import { DOCKER_DEFAULTS, dockerSandboxes } from "../../controller/sandboxes/docker.ts";
import { type EngineApi, openEngine } from "../../controller/sandboxes/engine-api.ts";
import type { MemberOptions } from "../../controller/store/records.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import type { BenchContext, Place } from "./bench.ts";
import { startSilent } from "./children.ts";
import type { DirectConfig, DirectWord } from "./parts/direct-client.ts";
import type { Scope } from "./scope.ts";

const CLIENT = fileURLToPath(new URL("./parts/direct-client.ts", import.meta.url));
const IN_IMAGE = {
  mount: "/run/holdfast",
  entry: ["/usr/bin/tini", "--", "/opt/holdfast/node"],
  slot: "/home/slots/direct",
  workspace: "/workspace",
  user: { uid: 20_001, gid: 20_000 },
  path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
};
const WORD_MS = 60_000;

export const MEMBER: MemberOptions = {
  model: { name: "m1", protocol: "chat-completions", contextTokens: 100_000, outputTokens: 8000 },
  permissions: { policy: "allow", askedTools: [] },
};

export interface DirectClient {
  /** From the container's creation (or the process's spawn) to the server's session and live stream, ms. */
  readyMs: number;
  turn(text: string): Promise<{ ms: number; text: string }>;
}

/** @param name a folder below the bench's own, and the container's name */
export async function startDirect(
  context: BenchContext,
  scope: Scope,
  place: Place,
  name: string,
): Promise<DirectClient> {
  const directory = join(context.directory, name);
  await mkdir(directory, { mode: 0o700 });
  await copyFile(CLIENT, join(directory, "direct-client.ts"));
  const config = configOf(place, directory, modelSocketOf(context));
  await writeFile(join(directory, "direct.json"), JSON.stringify(config), { mode: 0o600 });
  if (place.kind === "process") await mkdir(config.workspace, { mode: 0o700 });
  const words = await hear(join(directory, "ctl.sock"), scope, () => pipeModel(context, directory, scope));
  const beganMs = performance.now();
  if (place.kind === "container") await startContainer(context, scope, place, { name, directory });
  else startSilent({ scope, command: [context.node, join(directory, "direct-client.ts"), join(directory, "direct.json")] });
  await words.next("ready");
  return {
    readyMs: performance.now() - beganMs,
    async turn(text) {
      words.say(text);
      const { ms, text: answer } = await words.next("turn");
      return { ms, text: answer };
    },
  };
}
