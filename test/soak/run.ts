/** A soak from its start to its table: the stage is set, steps follow one another, and the first violation ends it. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { logTails, startTestHost } from "../support/host.ts";
import { canHaveEngine, type PrivateEngine, startPrivateEngine } from "../support/private-engine.ts";
import { makeMemoryDisk } from "../support/small-disk.ts";
import { chanceOf } from "./chance.ts";
import { createCrew } from "./crew.ts";
import { FAULTS } from "./faults.ts";
import type { SoakOptions } from "./options.ts";
import { type Soak, takeStep } from "./step.ts";
import { createTally } from "./tally.ts";

const STORE_MIB = 64;
/** Frozen processes are faults of the soak's own: no limit of ours is to end a turn over them. */
const LIMITS = { canaryMs: 60_000, requestMs: 60_000, readyMs: 150_000, firstEventMs: 60_000 };

export interface SoakEnd {
  turns: number;
  table: string;
  violations: string[];
}

/** @param signal ends it after the step that runs, like its limit of time */
export async function runSoak(
  options: SoakOptions,
  say: (line: string) => void,
  signal: AbortSignal = new AbortController().signal,
): Promise<SoakEnd> {
  const startedMs = performance.now();
  const ends: Array<() => Promise<void>> = [];
  try {
    const engine = options.ownEngine && canHaveEngine ? await ownEngine(options, ends) : null;
    const soak = await setStage(options, engine, ends, say);
    const faults = FAULTS.filter(
      ({ name, needs }) =>
        (needs !== "engine" || engine !== null) &&
        (needs !== "small store" || soak.storeIsSmall) &&
        (options.faults === null || name === "none" || options.faults.includes(name)),
    );
    const violations: string[] = [];
    for (let step = 1; soak.tally.turns() < options.turns && violations.length === 0; step += 1) {
      if (signal.aborted || performance.now() - startedMs > options.limitMs) break;
      const fault = soak.chance.weighted(faults);
      violations.push(
        ...(await takeStep(soak, step, fault).catch((error: unknown) => [
          `step ${step}, ${fault.name}: ${String(error)}`,
        ])),
      );
    }
    if (violations.length > 0) {
      say(await logTails(soak.t));
      for (const warning of soak.t.warnings.slice(-20)) say(`warning: ${warning}`);
    }
    return { turns: soak.tally.turns(), table: soak.tally.table(), violations };
  } finally {
    for (const end of ends) await end();
  }
}

/** On a small disk of its own where one can be had. */
async function placeForStore(ends: Array<() => Promise<void>>): Promise<string> {
  if (canHaveEngine) {
    const { folder, remove } = await makeMemoryDisk("hfs-", STORE_MIB);
    ends.unshift(remove);
    return folder;
  }
  const folder = await mkdtemp("/tmp/hfs-");
  ends.unshift(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function ownEngine(options: SoakOptions, ends: Array<() => Promise<void>>): Promise<PrivateEngine> {
  const engine = await startPrivateEngine({
    clis: options.clis,
    recordText: readFileSync(new URL("../../dist/image-manifest.json", import.meta.url), "utf8"),
  });
  ends.unshift(engine.stop);
  return engine;
}

async function setStage(
  options: SoakOptions,
  engine: PrivateEngine | null,
  ends: Array<() => Promise<void>>,
  say: (line: string) => void,
): Promise<Soak> {
  const engineSocketPath = engine?.socketPath ?? engineSocket(process.env.DOCKER_HOST);
  const storeDirectory = await placeForStore(ends);
  const t = await startTestHost({
    storeDirectory,
    engineSocketPath,
    limits: LIMITS,
    ...(engine === null ? {} : { distDirectory: engine.distDirectory }),
    atEnd: (end) => void ends.unshift(end),
  });
  return {
    t,
    crew: createCrew(t, options, engineSocketPath),
    chance: chanceOf(options.seed),
    tally: createTally(),
    engine,
    storeIsSmall: canHaveEngine,
    say,
  };
}
