// Bench 6: a permission that a Task child asks, from the server's event to the server's own word that the reply took
// effect: through the bridge, against a client that allows everything at once. In turn, in two places of the same kind.

import type { Host } from "../../controller/host.ts";
import type { NumberedEvent } from "../../protocol/events.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../protocol/permission-policy.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { startDirect } from "./direct.ts";
import { differences } from "./figures.ts";
import { createMember, openBenchHost, placeNote, startModel } from "./real-turns.ts";

/** The shell asks each time, and each time it is allowed. */
const POLICY: MemberPolicy = { ...ALLOW_ALL, rules: [{ tool: "bash", pattern: "*", action: "allow" }] };

const tool = (name: string, args: unknown) => ({ kind: "reply", toolCalls: [{ name, arguments: args }] });
const SCRIPTS = [
  {
    match: "Let a task do it",
    steps: [
      tool("task", { description: "run", prompt: "Run it, child.", subagent_type: "general" }),
      "Done.",
    ],
  },
  { match: "Run it, child", steps: [tool("bash", { command: "true", description: "nothing" }), "Ran."] },
];

/** From the bridge's record of a child's request to its record of the confirmation, ms. */
async function ownReplies(host: Host, member: string, text: string): Promise<number[]> {
  const turn = host.submit(member, text);
  const asked = new Map<string, number>();
  const replies: number[] = [];
  for await (const update of turn) if (update.kind === "event") note(update.entry);
  const { outcome, error } = await turn.settlement;
  if (outcome !== "completed") throw new Error(`a turn ended ${outcome}: ${error?.message ?? ""}`);
  return replies;

  function note({ at, event }: NumberedEvent): void {
    if (event.type === "turn.permission_asked" && event.ancestry.length > 1)
      asked.set(event.request.request, at);
    if (event.type !== "turn.permission_closed") return;
    if (event.result !== "confirmed")
      throw new Error(`a request was closed ${event.result}: ${event.detail}`);
    replies.push(at - (asked.get(event.request) ?? Number.NaN));
  }
}

async function measure(context: BenchContext) {
  const { isQuick, scope, say } = context;
  const place = await context.place();
  const modelUrl = await startModel(context, SCRIPTS);
  say(`requests: starting two ${place.kind === "container" ? "containers" : "processes"}`);
  const host = await openBenchHost(context, { scope, place, modelUrl });
  const member = createMember(host, scope, place, POLICY);
  const direct = await startDirect(context, { scope, place, name: "direct", modelUrl, permissions: POLICY });
  const own: number[] = [];
  const base: number[] = [];
  const turns = isQuick ? 10 : 40;
  for (let at = -2; at < turns; at += 1) {
    const text = `Let a task do it, number ${at}.`;
    const mine = await ownReplies(host, member, text);
    const { replyMs } = await direct.turn(text);
    if (mine.length !== 1 || replyMs.length !== 1)
      throw new Error(`${mine.length} and ${replyMs.length} replies`);
    if (at < 0) continue;
    own.push(...mine);
    base.push(...replyMs);
  }
  return {
    title: "a permission asked by a Task child, to the reply confirmed",
    figures: [
      { what: "through the bridge", unit: "ms", values: own },
      { what: "a client that allows at once", unit: "ms", values: base },
      { what: "added", unit: "ms", values: differences(own, base), aim: { atMost: 20 } },
    ],
    notes: [
      placeNote(place),
      "Through the bridge: between the times of the two journaled events, whole milliseconds. The client knows no policy, no ancestry and no record.",
    ],
  };
}

export const requestsBench: Bench = {
  name: "requests",
  about: "a Task child's permission, from asked to confirmed, against a client that allows at once",
  measure,
};
