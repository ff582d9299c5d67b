/**
 * `npm start`: makes what the recall tour needs (an engine if one can be had, the image or at least the bundle), then
 * runs the tour. Options are the tour's own: `npm start -- --help`.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ensureEngine } from "./engine.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const args = process.argv.slice(2);

/** Runs one of our programs; ends us with its exit code when it fails. */
function run(program: string, words: readonly string[]): void {
  const result = spawnSync(process.execPath, [program, ...words], {
    cwd: ROOT,
    stdio: ["inherit", "inherit", "inherit"],
  });
  if (result.status !== 0) process.exit(result.status ?? 1);
}

const wantsHelp = args.includes("--help") || args.includes("-h");
const sandboxAt = args.indexOf("--sandbox");
const wantsProcess =
  args.includes("--sandbox=process") || (sandboxAt >= 0 && args[sandboxAt + 1] === "process");
if (!wantsHelp) await prepare();
run("controller/cli/main.ts", ["demo", ...args]);

async function prepare(): Promise<void> {
  const hasEngine = !wantsProcess && (await hasAnEngine());
  // The build's own result line is of no interest here; its progress is.
  const words = hasEngine ? [] : ["--bundle-only"];
  const build = spawnSync(process.execPath, ["sandbox-image/build.ts", ...words], {
    cwd: ROOT,
    stdio: ["inherit", "ignore", "inherit"],
  });
  if (build.status !== 0) process.exit(build.status ?? 1);
}

async function hasAnEngine(): Promise<boolean> {
  try {
    const { dockerHost } = await ensureEngine({
      dockerHost: process.env.DOCKER_HOST,
      root: process.env.HOLDFAST_ENGINE_ROOT,
      report: (line) => process.stderr.write(`holdfast: ${line}\n`),
    });
    // What runs after us must find the same one.
    process.env.DOCKER_HOST = dockerHost;
    return true;
  } catch (error) {
    process.stderr.write(
      `holdfast: no container engine: ${error instanceof Error ? error.message : String(error)}\n`,
    );
    process.stderr.write("holdfast: the tour runs with a process sandbox, and says what that leaves out\n");
    return false;
  }
}
