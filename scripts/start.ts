/**
 * `npm start`: makes what the recall tour needs (an engine if one can be had, the image or at least the bundle), then
 * runs the tour. Options are the tour's own: `npm start -- --help`.
 */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";
import { ensureEngine } from "./engine.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const args = process.argv.slice(2);
const sandbox = sandboxOf(args);
const isHelp = args.includes("--help") || args.includes("-h");
// Words that the tour will refuse need no engine and no image.
const isRefused = sandbox !== undefined && sandbox !== "docker" && sandbox !== "process";

/** The first program that fails ends the run, with its exit code. */
process.exitCode =
  (isHelp || isRefused ? 0 : await prepare()) || (await run("controller/cli/main.ts", ["demo", ...args]));

function sandboxOf(words: readonly string[]): string | undefined {
  const at = words.indexOf("--sandbox");
  const joined = words.find((word) => word.startsWith("--sandbox="));
  return at >= 0 ? words[at + 1] : joined?.slice("--sandbox=".length);
}

async function prepare(): Promise<number> {
  const hasEngine = sandbox !== "process" && (await hasAnEngine());
  // The build's own result line is of no interest here; its progress is.
  return await run("sandbox-image/build.ts", hasEngine ? [] : ["--bundle-only"], { isQuiet: true });
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
    if (sandbox === undefined)
      process.stderr.write("holdfast: the tour runs with a process sandbox, and says what that leaves out\n");
    return false;
  }
}

/** Runs one of our programs to its end, also when we are told to end: it has to clean up. Returns its exit code. */
function run(program: string, words: readonly string[], { isQuiet = false } = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, ...words], {
      cwd: ROOT,
      stdio: ["inherit", isQuiet ? "ignore" : "inherit", "inherit"],
    });
    // A terminal's Ctrl-C reaches the child by itself; the tour takes two at once for one.
    const passOn = (signal: NodeJS.Signals) => child.kill(signal);
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, passOn);
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.off(name, passOn);
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}
