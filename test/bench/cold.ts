// Bench 3: from no container to the first settlement, against what no one can save: create and start the container, the
// CLI's own start, and one turn by a direct client in it.
import type { Bench, BenchContext } from "./bench.ts";
import { startDirect } from "./direct.ts";
import { differences, ratios } from "./figures.ts";
import { createMember, openBenchHost, placeNote, REPLY, startModel, timedTurn } from "./real-turns.ts";
import { Scope } from "./scope.ts";

const PROMPT = "Hello, please answer.";

async function measure(context: BenchContext) {
  const { isQuick, scope, say } = context;
  const place = await context.place();
  const modelUrl = await startModel(context);
  const host = await openBenchHost(context, { scope, place, modelUrl });
  const own: number[] = [];
  const base: number[] = [];
  const readies: number[] = [];
  const prepares: number[] = [];

  async function ownFirstTurn(): Promise<void> {
    const inner = new Scope();
    scope.defer(() => inner.close());
    const beganMs = performance.now();
    const member = createMember(host, inner, place);
    const { settlement } = await timedTurn(host, member, PROMPT);
    own.push(performance.now() - beganMs);
    prepares.push(settlement.timings.prepareMs ?? Number.NaN);
    await inner.close();
  }

  async function directFirstTurn(round: number): Promise<void> {
    const inner = new Scope();
    scope.defer(() => inner.close());
    const direct = await startDirect(context, { scope: inner, place, name: `d${round}`, modelUrl });
    const beganMs = performance.now();
    const { text } = await direct.turn(PROMPT);
    if (text !== REPLY) throw new Error(`the direct client saw "${text.slice(0, 80)}"`);
    base.push(direct.readyMs + performance.now() - beganMs);
    readies.push(direct.readyMs);
    await inner.close();
  }

  const rounds = isQuick ? 2 : 7;
  for (let round = 0; round < rounds; round += 1) {
    say(`cold: round ${round + 1} of ${rounds}`);
    if (round % 2 === 0) await ownFirstTurn();
    await directFirstTurn(round);
    if (round % 2 === 1) await ownFirstTurn();
  }
  return {
    title: "from nothing to the first settlement",
    figures: [
      { what: "Holdfast: nothing to first settlement", unit: "ms", values: own },
      { what: "direct: nothing to first idle", unit: "ms", values: base },
      { what: "Holdfast by direct", unit: "", values: ratios(own, base), aim: { atMost: 1.15 } },
      { what: "Holdfast above direct", unit: "ms", values: differences(own, base) },
      { what: "direct: until its stream is live", unit: "ms", values: readies },
      { what: "Holdfast: the CLI's start in the bridge", unit: "ms", values: prepares },
    ],
    notes: [
      placeNote(place),
      "A run is one new place of each, one after the other, the order changing. Holdfast's time has the container's measuring and attestation in it.",
    ],
  };
}

export const coldBench: Bench = {
  name: "cold",
  about: "no container to first settlement, against container start + CLI ready + a direct turn",
  measure,
};
