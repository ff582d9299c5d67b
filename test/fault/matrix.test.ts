/**
 * The crash matrix: turn states by victims, on real containers. Every run plays one cell a state and a victim;
 * `npm run test:full` plays all. HOLDFAST_MATRIX_CLI names another CLI, HOLDFAST_MATRIX_CELLS=STATE/VICTIM,… some cells.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { logTails } from "../support/host.ts";
import { canHaveEngine, type PrivateEngine, startPrivateEngine } from "../support/private-engine.ts";
import { subjectOf } from "../support/subjects.ts";
import { openStage, type Played, playCell, type Stage } from "./matrix-run.ts";
import { CELLS, type Cell, cellsFor, needsOwnEngine, STATES, VICTIMS } from "./matrix-table.ts";

const subject = subjectOf(process.env.HOLDFAST_MATRIX_CLI || "opencode");
const chosen = (process.env.HOLDFAST_MATRIX_CELLS ?? "").split(",").filter((name) => name !== "");
const nameOf = ({ state, victim }: Cell) => `${state}/${victim}`;
const CHOSEN =
  chosen.length > 0
    ? CELLS.filter((cell) => chosen.some((name) => nameOf(cell).startsWith(name)))
    : cellsFor(process.env.HOLDFAST_TEST_FULL === "1" ? "whole" : "quick");

const ends: Array<() => Promise<void>> = [];
const played = new Map<Cell, Played>();
let usual: Stage | null = null;
let own: Stage | null = null;
let engine: PrivateEngine | null = null;

const atEnd = (end: () => Promise<void>) => void ends.unshift(end);

beforeAll(async () => {
  usual = await openStage({
    subject,
    engine: null,
    engineSocketPath: engineSocket(process.env.DOCKER_HOST),
    atEnd,
  });
  if (!canHaveEngine || !CHOSEN.some(needsOwnEngine)) return;
  engine = await startPrivateEngine({
    clis: [subject.manifest.cli],
    recordText: readFileSync(new URL("../../dist/image-manifest.json", import.meta.url), "utf8"),
  });
  atEnd(engine.stop);
  own = await openStage({ subject, engine, engineSocketPath: engine.socketPath, atEnd });
});

afterAll(async () => {
  const row = (cells: readonly string[]) => cells.map((cell) => cell.padEnd(14)).join("");
  const lines = [...played].map(([{ state, victim }, { outcome, settled, code, retries, next, tookMs }]) =>
    row([
      state,
      victim,
      `${outcome}${settled ? "" : " -"}`,
      next,
      retries === 0 ? "" : `+${retries} by the CLI`,
      `${tookMs} ms`,
      code,
    ]),
  );
  const head = row(["state", "victim", "outcome", "next", "asked again", "took", "code"]);
  process.stderr.write(`\n── crash matrix, ${subject.manifest.cli}\n${[head, ...lines].join("\n")}\n`);
  for (const end of ends) await end();
}, 120_000);

for (const cell of CHOSEN) {
  test.skipIf(needsOwnEngine(cell) && !canHaveEngine)(
    `laws 3, 6, 7, 8, 11; S18${cell.victim === "engine" ? ", P36" : ""}${cell.victim === "bridge" ? ", P30" : ""}: ${cell.victim} dies while a turn is ${cell.state}: ${cell.outcomes.join(" or ")}`,
    async () => {
      const stage = needsOwnEngine(cell) ? own : usual;
      if (stage === null) throw new Error("the stage is not open");
      try {
        played.set(cell, await playCell(stage, cell));
      } catch (error) {
        process.stderr.write(await logTails(stage.t));
        process.stderr.write(
          stage.t.warnings
            .splice(0)
            .map((warning) => `warning: ${warning}\n`)
            .join(""),
        );
        throw error;
      }
    },
    150_000,
  );
}

test("the matrix has a place for at least six states and five victims, and the short one leaves none out", () => {
  expect(STATES.length).toBeGreaterThanOrEqual(6);
  expect(new Set(VICTIMS.map((victim) => victim.split(",")[0])).size).toBeGreaterThanOrEqual(5);
  expect(CELLS).toHaveLength(STATES.length * VICTIMS.length);
  for (const { outcomes } of CELLS) expect(outcomes.length).toBeGreaterThan(0);
  expect(new Set(cellsFor("quick").map(({ state }) => state))).toEqual(new Set(STATES));
  expect(new Set(cellsFor("quick").map(({ victim }) => victim))).toEqual(new Set(VICTIMS));
});
