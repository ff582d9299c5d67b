// What the benches run on: the bridge bundled from these sources, and, for real CLIs, the sandbox image or the CLIs on
// this machine. Nothing of it is timed.
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { buildBundle, buildImage } from "../../sandbox-image/build.ts";
import { bundleBridge } from "../../sandbox-image/bundle.ts";
import { imageRecordSchema } from "../../sandbox-image/manifest.ts";
import { removeLeftovers } from "../../scripts/leftovers.ts";
import type { Place } from "./bench.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const BRIDGE = fileURLToPath(new URL("../../bridge/main.ts", import.meta.url));

export async function buildBridge(directory: string, isAsBuilt: boolean): Promise<string> {
  if (isAsBuilt) {
    const path = join(DIST, "bridge.cjs");
    await access(path).catch(() => {
      throw new Error("nothing was built yet: run `npm run image`, or leave --as-built away");
    });
    return path;
  }
  const outFile = join(directory, "bridge.cjs");
  await bundleBridge({ entry: BRIDGE, outFile });
  return outFile;
}

export async function findPlace(
  directory: string,
  { isAsBuilt, hasEngine, say }: { isAsBuilt: boolean; hasEngine: boolean; say: (line: string) => void },
): Promise<Place> {
  if (hasEngine) {
    const engineSocketPath = engineSocket(process.env.DOCKER_HOST);
    const imageRecordPath = join(DIST, "image-manifest.json");
    if (!isAsBuilt) await buildImage({ socketPath: engineSocketPath, npm: npm(), report: say });
    const { manifest } = imageRecordSchema.parse(JSON.parse(await readFile(imageRecordPath, "utf8")));
    return { kind: "container", engineSocketPath, imageRecordPath, command: openCode(manifest.clis).command };
  }
  const { clis } = await buildBundle({ outFolder: join(directory, "dist"), npm: npm(), report: say });
  const { command, version } = openCode(clis);
  return { kind: "process", why: "no container engine answers", command, version };
}

function openCode<Entry extends { cli: string }>(clis: readonly Entry[]): Entry {
  const found = clis.find(({ cli }) => cli === "opencode");
  if (found === undefined) throw new Error("this build has no OpenCode");
  return found;
}

/** By its label and nothing else: what an interrupted bench would leave. */
export async function sweepContainers(run: string): Promise<void> {
  await removeLeftovers((of) => of === run);
}

/** npm's own script when npm runs us, as the image build wants it. */
function npm(): { script: string; node: string } | undefined {
  const script = process.env.npm_execpath;
  return script === undefined
    ? undefined
    : { script, node: process.env.npm_node_execpath ?? process.execPath };
}
