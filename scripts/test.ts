// `npm test`: checks, engine, image, all tests, nothing left behind, and as the last line the counts. Stops at the
// first step that fails; the last line is printed in every case. Arguments go to vitest: `npm test -- -t NAME`.
// `--full` adds test/full. HOLDFAST_SKIP_CONTAINERS=1 counts container tests as skipped; CI refuses it.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, isRunAlive, newRun, removeLeftovers } from "./leftovers.ts";
import { killMarked, markedProcesses } from "./marked-processes.ts";
import { root, runStep, type Step, type StepEnd, say, timed } from "./step.ts";

type Counts = { passed: number; failed: number; skipped: number; containerTestsRun: number };

const args = process.argv.slice(2).filter((arg) => arg !== "--full");
const isFull = process.argv.includes("--full");
const isCi = !["", "0", "false"].includes(process.env.CI ?? "");
const optsOut = process.env.HOLDFAST_SKIP_CONTAINERS === "1";
const wantsContainers = !optsOut && namesContainers(args);
const limitMs = Number(process.env.HOLDFAST_TEST_LIMIT_MS ?? (isFull ? 120 : 60) * 60_000);

const run = newRun();
const scratch = mkdtempSync(join(tmpdir(), "holdfast-test-"));
const tallyFile = join(scratch, "tally.json");

const limit = new AbortController();
const timer = setTimeout(() => limit.abort(`the whole run took longer than ${limitMs} ms`), limitMs);
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(name, () => limit.abort(`${name} received`));

const end = await runAll();
const swept = await removeOwn();
clearTimeout(timer);
const counts = readCounts();
rmSync(scratch, { recursive: true, force: true });
const isGood = end.ok && swept.ok;
if (!isGood && counts.failed === 0) counts.failed = 1;
say(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
process.exitCode = counts.failed === 0 ? 0 : 1;

async function runAll(): Promise<StepEnd> {
  if (optsOut && isCi) {
    const reason = "HOLDFAST_SKIP_CONTAINERS=1 is refused when CI is set: CI proves the container tests";
    return await timed("options", async () => ({ ok: false, reason }));
  }
  if (optsOut)
    say("── containers: opted out (HOLDFAST_SKIP_CONTAINERS=1); their tests are counted as skipped");
  for (const step of checks()) {
    const end = await runStep(step, limit.signal);
    if (!end.ok) return end;
  }
  // Process sandboxes are made of it; the conformance suites and the command line's tests use them.
  const bundle = await runScript("bundle and CLIs", "sandbox-image/build.ts --bundle-only");
  if (!bundle.ok) return bundle;
  const programs = await runScript("test programs", "scripts/test-programs.ts");
  if (!programs.ok) return programs;
  if (wantsContainers) {
    const ready = await prepareEngine();
    if (!ready.ok) return ready;
  }
  const tested = await runStep(vitest(), limit.signal);
  // With a selection on the command line none need run; without one, a run in which none did proves less than it says.
  if (!tested.ok || optsOut || args.length > 0) return tested;
  return await timed("container tests ran", async () => containersRan());
}

/** The parts of `npm run check`, read from its own line so that the two cannot differ; the bootstrap is behind us. */
function checks(): Step[] {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  return (scripts.check ?? "false")
    .split("&&")
    .map((part) => part.trim())
    .filter((part) => !part.includes("bootstrap.mjs"))
    .map((part) => ({ name: `check: ${part.split(" ")[0]}`, command: ["sh", "-c", part] }));
}

async function prepareEngine(): Promise<StepEnd> {
  const engine = await runScript("engine", "scripts/engine.ts", useEngine);
  if (!engine.ok) return engine;
  const image = await runScript("image", "sandbox-image/build.ts");
  if (!image.ok) return image;
  return await sweep("leftovers of earlier runs", (of) => of !== run && !isRunAlive(of));
}

async function runScript(name: string, words: string, onLine?: (line: string) => void): Promise<StepEnd> {
  const [script = "", ...rest] = words.split(" ");
  if (!existsSync(join(root, script)))
    return await timed(name, async () => ({ ok: false, reason: `${script} is missing` }));
  return await runStep({ name, command: ["tsx", script, ...rest], ...(onLine && { onLine }) }, limit.signal);
}

/** scripts/engine.ts says which engine answers; the image, the tests and the sweeps are to use that one. */
function useEngine(line: string): void {
  if (line.startsWith("DOCKER_HOST=")) process.env.DOCKER_HOST = line.slice("DOCKER_HOST=".length);
}

function vitest(): Step {
  return {
    name: "tests",
    command: ["vitest", "run", ...args],
    env: {
      HOLDFAST_TEST_RUN_ID: run,
      HOLDFAST_TEST_TALLY: tallyFile,
      HOLDFAST_TEST_FULL: isFull ? "1" : "",
    },
  };
}

function containersRan(): StepEnd {
  if (readCounts().containerTestsRun > 0) return { ok: true };
  return { ok: false, reason: "not one container test ran, and nobody opted out" };
}

/** Normally nothing is left: this is for a run that was cut short, before its own check for strays. */
async function removeOwn(): Promise<StepEnd> {
  const processes = markedProcesses(run);
  for (const { pid, command } of processes) say(`── ending process ${pid}: ${command}`);
  killMarked(processes);
  return wantsContainers ? await sweep("what this run left", (of) => of === run) : { ok: true };
}

async function sweep(name: string, isOurs: (run: string) => boolean): Promise<StepEnd> {
  return await timed(name, async () => {
    for (const leftover of await removeLeftovers(isOurs)) say(`   removed ${describe(leftover)}`);
    return { ok: true };
  });
}

/** What the tally reporter wrote; without it vitest never ended, which is one failure. */
function readCounts(): Counts {
  if (existsSync(tallyFile)) return JSON.parse(readFileSync(tallyFile, "utf8")) as Counts;
  return { passed: 0, failed: 1, skipped: 0, containerTestsRun: 0 };
}

/** False only when every --project named is one that needs no engine. */
function namesContainers(given: string[]): boolean {
  const projects = given.flatMap((arg, index) => {
    if (arg.startsWith("--project=")) return [arg.slice("--project=".length)];
    return arg === "--project" ? [given[index + 1] ?? ""] : [];
  });
  return projects.length === 0 || projects.some((name) => name !== "unit" && name !== "conformance");
}
