/** `holdfast demo`: the recall tour with its table, and what was proven. Exit code 0 only when all of it held. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import type { SandboxKind } from "../store/records.ts";
import { type Command, MODEL_OPTIONS, MODEL_USAGE, text } from "./command.ts";
import type { Environment } from "./environment.ts";
import { watchInterrupts } from "./interrupts.ts";
import { checkModel } from "./model-check.ts";
import { chooseKind, commandSetup } from "./open.ts";
import { type Output, seconds, table } from "./output.ts";
import { type ModelSettings, readModel } from "./relay-settings.ts";
import { runTour, type TourResult, type TourRow } from "./tour.ts";
import { loopbackModel, namedModel } from "./tour-model.ts";
import { endEvidence } from "./turn-display.ts";

/** What a shell gives for a program that was ended by Ctrl-C. */
const INTERRUPTED = 130;

export const demo: Command = {
  name: "demo",
  summary: "The recall tour: NEW, LIVE, RESTORED, a killed controller, LOST; with the evidence of each.",
  usage: `[--sandbox docker|process] ${MODEL_USAGE}

Without a model of yours a scripted one on loopback answers. Everything that the tour makes is removed at its end.
Exit code 0: all of it held. 1: something did not.`,
  options: { ...MODEL_OPTIONS, sandbox: { type: "string" } },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    const settings = readModel(values, environment.variables);
    const setup = commandSetup(environment);
    const kind = await chooseKind(text(values, "sandbox"), setup, output).finally(() => setup.close());
    const stopping = new AbortController();
    const unwatch = watchInterrupts(() => {
      if (stopping.signal.aborted) {
        output.progress("ended at once; a container of the tour may be left (label dev.holdfast.sandbox)");
        process.exit(INTERRUPTED);
      }
      output.progress("stopping the tour and removing what it made (Ctrl-C again ends at once)");
      stopping.abort();
    });
    try {
      const result = await play({ settings, environment, output, kind, signal: stopping.signal });
      return result === null ? INTERRUPTED : report(result, output);
    } finally {
      unwatch();
    }
  },
};

/** Null when it was stopped on the way. Whatever happens, nothing of it is left. */
async function play(options: {
  settings: ModelSettings | null;
  environment: Environment;
  output: Output;
  kind: SandboxKind;
  signal: AbortSignal;
}): Promise<TourResult | null> {
  const { settings, environment, output, kind, signal } = options;
  if (settings !== null) {
    const { relay, route } = settings;
    const remark = await checkModel(relay, PROTOCOL_OF_CLI.opencode, route, environment.variables);
    if (remark !== null) output.progress(remark);
  }
  const model = settings === null ? await loopbackModel(environment) : namedModel(settings);
  const directory = await mkdtemp(join(tmpdir(), "holdfast-tour-"));
  output.progress(
    `holdfast: the recall tour, OpenCode in a ${kind === "docker" ? "container" : "plain process"}, ${model.description}`,
  );
  try {
    return await runTour({ environment, output, model, kind, directory, signal });
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  } finally {
    await model.close();
    await rm(directory, { recursive: true, force: true });
  }
}

/** True when a turn ended as the tour says it must. */
export function isAsExpected({ expected, settlement }: TourRow): boolean {
  return settlement.outcome === expected.outcome && settlement.context === expected.context;
}

/** Prints the table and what was shown; returns the exit code. */
export function report(result: TourResult, output: Output): number {
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
  if (!isGood) return 1;
  const ways: Array<[string, string]> = [
    [output.command("chat --base-url URL --model NAME --key-file FILE"), "talk with an agent"],
    [output.command("doctor"), "check engine, image, store"],
    ["npm test", "run every check and test"],
  ];
  const width = Math.max(...ways.map(([command]) => command.length));
  for (const [command, what] of ways) output.line(`  ${command.padEnd(width)}    ${what}`);
  return 0;
}
