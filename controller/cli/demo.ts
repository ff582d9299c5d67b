/** `holdfast demo`: the recall tour with its table, and what was proven. Exit code 0 only when all of it held. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setUp } from "../setup.ts";
import { endEvidence } from "./chat.ts";
import { type Command, MODEL_OPTIONS, MODEL_USAGE, text } from "./command.ts";
import { readModel } from "./environment.ts";
import { chooseKind } from "./open.ts";
import { type Output, seconds, table } from "./output.ts";
import { runTour, type TourResult, type TourRow } from "./tour.ts";
import { loopbackModel, namedModel } from "./tour-model.ts";

export const demo: Command = {
  name: "demo",
  summary: "The recall tour: NEW, LIVE, RESTORED, a killed controller, LOST; with the evidence of each.",
  usage: `[--sandbox docker|process] ${MODEL_USAGE}`,
  options: { ...MODEL_OPTIONS, sandbox: { type: "string" } },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    const settings = readModel(values);
    const { distDirectory, engineSocketPath, path } = environment;
    const setup = setUp({ distDirectory, engineSocketPath, path });
    const kind = await chooseKind(text(values, "sandbox"), setup, output).finally(() => setup.close());
    const model = settings === null ? await loopbackModel(environment) : namedModel(settings);
    const directory = await mkdtemp(join(tmpdir(), "holdfast-tour-"));
    output.progress(
      `holdfast: the recall tour, OpenCode in a ${kind === "docker" ? "container" : "plain process"}, ${model.description}`,
    );
    try {
      const result = await runTour({ environment, output, model, kind, directory });
      return report(result, output);
    } finally {
      await model.close();
      await rm(directory, { recursive: true, force: true });
    }
  },
};

/** True when a turn ended as the tour says it must. */
export function isAsExpected({ expected, settlement }: TourRow): boolean {
  return settlement.outcome === expected.outcome && settlement.context === expected.context;
}

function report(result: TourResult, output: Output): number {
  const { rows, proofs, leftOut } = result;
  const isGood = rows.length === 5 && rows.every(isAsExpected) && proofs.every(({ holds }) => holds);
  if (output.isJson) {
    output.json({ ...result, isGood });
    return isGood ? 0 : 1;
  }
  const lines = rows.map((row) => {
    const { settlement, step, tookMs } = row;
    const last = endEvidence(settlement.evidence);
    return [
      step,
      settlement.context ?? "-",
      `${settlement.outcome}${settlement.settled ? ", settled" : ""}`,
      last?.what ?? "-",
      settlement.session?.nativeId ?? "-",
      seconds(tookMs),
      isAsExpected(row) ? "" : `EXPECTED ${row.expected.context} ${row.expected.outcome}`,
    ];
  });
  output.line(`\n${table(["TURN", "CONTEXT", "OUTCOME", "EVIDENCE", "NATIVE ID", "TIME", ""], lines)}\n`);
  output.line("shown:");
  for (const { claim, holds } of proofs) output.line(`  ${holds ? "yes" : "NO "}  ${claim}`);
  for (const part of leftOut) output.line(`  left out  ${part}`);
  output.line(isGood ? "\nall of it held. how to go on:" : "\nNOT all of it held.");
  if (isGood) {
    output.line(
      "  npm run holdfast -- chat --base-url URL --model NAME --key-file FILE    talk with an agent",
    );
    output.line(
      "  npm run holdfast -- doctor                                             check engine, image, store",
    );
    output.line(
      "  npm test                                                               run every check and test",
    );
  }
  return isGood ? 0 : 1;
}
