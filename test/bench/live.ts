// Bench 2: turns of a live OpenCode through Holdfast, from submission to settlement, against a direct client of
// `opencode serve`, from prompt to idle. In turn, in two places of the same kind.
import type { Timings } from "../../protocol/settlement.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { startDirect } from "./direct.ts";
import { ratios } from "./figures.ts";
import { createMember, openBenchHost, placeNote, REPLY, startModel, timedTurn } from "./real-turns.ts";

const STAGES: ReadonlyArray<[keyof Timings, string]> = [
  ["prepareMs", "prepare"],
  ["gateMs", "gate"],
  ["submitMs", "submit"],
  ["firstEventMs", "first event"],
  ["settleMs", "the CLI's own work"],
  ["verifyMs", "verify"],
];

async function measure(context: BenchContext) {
  const { isQuick, scope, say } = context;
  const place = await context.place();
  const modelUrl = await startModel(context);
  say(`live: starting two ${place.kind === "container" ? "containers" : "processes"}`);
  const host = await openBenchHost(context, { scope, place, modelUrl });
  const member = createMember(host, scope, place);
  const direct = await startDirect(context, { scope, place, name: "direct", modelUrl });

  const directTurn = async (text: string) => {
    const { ms, text: answer } = await direct.turn(text);
    if (answer !== REPLY) throw new Error(`the direct client saw "${answer.slice(0, 80)}"`);
    return ms;
  };
  // The first turns set up what later ones find (snapshots, caches, compiled code).
  for (let at = 0; at < 3; at += 1) {
    await timedTurn(host, member, "Warm up, please.");
    await directTurn("Warm up, please.");
  }
  const own: number[] = [];
  const base: number[] = [];
  const stages = STAGES.map((): number[] => []);
  const turns = isQuick ? 12 : 40;
  say(`live: ${turns} turns of each, alternating`);
  for (let at = 0; at < turns; at += 1) {
    const text = `Message ${at}, please answer.`;
    const isOwnFirst = at % 2 === 0;
    if (!isOwnFirst) base.push(await directTurn(text));
    const { ms, settlement } = await timedTurn(host, member, text);
    if (settlement.context !== "LIVE") throw new Error(`a turn was ${settlement.context}`);
    own.push(ms);
    for (const [stage, [name]] of STAGES.entries())
      stages[stage]?.push(settlement.timings[name] ?? Number.NaN);
    if (isOwnFirst) base.push(await directTurn(text));
  }
  return {
    title: "live turns of OpenCode, against a direct client",
    figures: [
      { what: "turn through Holdfast", unit: "ms", values: own },
      { what: "turn of a direct client", unit: "ms", values: base },
      { what: "Holdfast by direct", unit: "", values: ratios(own, base), aim: { atMost: 1.1 } },
      ...STAGES.map(([, name], stage) => ({
        what: `of that in the bridge: ${name}`,
        unit: "ms",
        values: stages[stage] ?? [],
      })),
    ],
    notes: [
      placeNote(place),
      "A run is one turn of each; the ratio is taken turn by turn. The model answers at once, 40 chunks without a pause, so the ratio is " +
        "the worst there is: with a slower model the same milliseconds are added to more.",
      "Holdfast: submission to settlement at the client, admission and identity check included. Direct: prompt to idle, measured beside the server.",
    ],
  };
}

export const liveBench: Bench = {
  name: "live",
  about: "turns on a real, running OpenCode, against a direct client of its server",
  measure,
};
