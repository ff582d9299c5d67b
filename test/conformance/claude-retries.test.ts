/**
 * Rows D1 to D5: Claude Code below 2.1.269 loses the reply of a turn that has retried a request when a further turn starts in
 * that process, and shows it only behind the next resume. With the retirement nothing is lost on either version; the same
 * script without it loses text on the old one (so the test proves something), and nothing on the new one (so the retirement
 * need not be there). Compared is what the model receives: every text of user and assistant, once, in order.
 */
import { expect, test } from "vitest";
import type { Resident } from "../../bridge/drivers/driver.ts";
import type { TailReference } from "../../protocol/locator.ts";
import { createRig, locatorOf, playOn, type Rig } from "../bridge/drivers/claude/rig.ts";
import { startTestHost } from "../support/host.ts";
import { ownTexts } from "../support/model/additions.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import type { StepInput } from "../support/model/steps.ts";
import { play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { CLAUDE_MEMBER, CLAUDE_VERSIONS, type ClaudeVersion, claudeCommand } from "./suite/claude-subject.ts";

/** How the first try of a request fails. */
const FAILURES = {
  "a 429": { times: 1, status: 429, headers: { "retry-after": "0" } },
  "a 500": { times: 1, status: 500 },
  "a 529": { times: 1, status: 529 },
  "a closed socket": { times: 1, step: { kind: "destroy" } },
  "a cut stream": { times: 1, step: { kind: "cut", text: "Half of it" } },
} as const;

/** The tests run side by side: most of their time is waiting for the next try. */
type AtEnd = (end: () => Promise<void>) => void;

interface Cell {
  name: string;
  /** What the user says: the turn that retries, and the one behind it. */
  ask: string;
  follow: string;
  /** What the model says in the turn before the request that is retried, and behind it. */
  before: string[];
  reply: string;
  second: string;
  steps: StepInput[];
}

/** Each failure, on the first request of a turn and on a later one of a turn with a tool. */
const CELLS: readonly Cell[] = Object.entries(FAILURES).flatMap(([failure, failFirst]) =>
  ["the first request", "a later request"].map((place, at) => {
    const name = `${failure} on ${place}`;
    const said = { before: at === 0 ? [] : [`Before ${name}.`], reply: `Reply after ${name}.` };
    const call = { name: "Bash", arguments: { command: "true" } };
    const steps: StepInput[] = said.before.map((text) => ({ kind: "reply", text, toolCalls: [call] }));
    return {
      ...said,
      name,
      ask: `Ask for ${name}.`,
      follow: `Follow up ${name}.`,
      second: `Second of ${name}.`,
      steps: [...steps, { kind: "reply", text: said.reply, failFirst }],
    };
  }),
);

/** All that is said in these cells, in order. */
const whole = (cells: readonly Cell[]) =>
  cells.flatMap(({ ask, before, reply, follow, second }) => [ask, ...before, reply, follow, second]);

function scriptAll(model: ModelServer): void {
  for (const { ask, steps, follow, second } of CELLS) {
    model.script(ask, steps);
    model.script(follow, [second]);
  }
}

/** Every text of the conversation, in order, as the newest request of the main chain has it. */
function conversation(model: ModelServer): string[] {
  const rows = model.mainRequests().at(-1)?.request?.rows ?? [];
  return rows.flatMap((row) => {
    // Texts that the CLI sends in one message get a line feed between them.
    if (row.role === "user") return ownTexts(row).map((text) => text.replace(/\n$/, ""));
    return row.role === "assistant" ? row.texts : [];
  });
}

for (const version of CLAUDE_VERSIONS) {
  const isOld = version === "2.1.220";

  test.concurrent(`D1, D2, D4, D5, Claude Code ${version}: retired where it must be, it loses no text over any failure, a follow-up and a resume`, async ({
    onTestFinished: atEnd,
  }) => {
    const t = await startTestHost({ claude: version, atEnd });
    const sandbox = t.host.createSandbox({ kind: "process" }).id;
    const member = t.host.createMember({ sandbox, cli: "claude", ...CLAUDE_MEMBER }).id;
    scriptAll(t.model);
    for (const [at, { name, ask, before, reply, follow }] of CELLS.entries()) {
      const turn = await play(t, member, ask);
      expect(turn.settlement, name).toMatchObject({
        outcome: "completed",
        settled: true,
        context: at === 0 ? "NEW" : "LIVE",
        error: null,
        parts: [...before, reply],
        keepsProcess: !isOld,
      });
      expect(turn.all("turn.waiting"), name).toHaveLength(1);
      const { locator } = t.host.member(member);
      expect(locator, name).toMatchObject({
        settledTurns: 2 * at + 1,
        nativeId: turn.settlement.session?.nativeId,
      });
      const next = await play(t, member, follow);
      expect(next.settlement, name).toMatchObject({
        outcome: "completed",
        context: isOld ? "RESTORED" : "LIVE",
        keepsProcess: true,
      });
      expect(next.settlement.session?.nativeId).toBe(locator?.nativeId);
    }
    await t.host.stopSandbox(sandbox);
    const { settlement } = await play(t, member, "And now?");
    expect(settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
    expect(conversation(t.model)).toEqual([...whole(CELLS), "And now?"]);
  });

  test.concurrent(`D5, Claude Code ${version}: not retired, it ${isOld ? "has lost every reply that was retried" : "has lost nothing"} behind a resume`, async ({
    onTestFinished: atEnd,
  }) => {
    const model = await ownModel(atEnd);
    scriptAll(model);
    const rig = await unretired(version, model, { atEnd, background: false });
    const resident = await rig.launch();
    let tail: TailReference | null = null;
    for (const { ask, follow, name } of CELLS) {
      await playOn(rig, resident, ask);
      expect(resident.mustRetire(), name).toBeNull();
      ({ tail } = await playOn(rig, resident, follow));
    }
    // The live process is well: the loss shows only behind a resume.
    expect([...conversation(model), CELLS.at(-1)?.second]).toEqual(whole(CELLS));
    await resident.stop();
    await resumeAndSay(rig, resident, tail, "And now?");
    const left = isOld
      ? CELLS.flatMap(({ ask, before, follow, second }) => [ask, ...before, follow, second])
      : whole(CELLS);
    expect(conversation(model)).toEqual([...left, "And now?"]);
  });

  test.concurrent(`facts 5, Claude Code ${version}: a turn of the CLI's own in a process that has retried ${isOld ? "loses the reply too, and the proof of the tail sees it: so nothing works on there" : "loses nothing"}`, async ({
    onTestFinished: atEnd,
  }) => {
    const model = await ownModel(atEnd);
    const rig = await unretired(version, model, { atEnd, background: true });
    const shell = { name: "Bash", arguments: { command: "sleep 0.3", run_in_background: true } };
    model.script("Ask behind", [
      { kind: "reply", text: "Started.", toolCalls: [shell], failFirst: FAILURES["a 529"] },
      "Reply behind.",
    ]);
    model.script("SYSTEM NOTIFICATION", ["Noticed."]);
    const resident = await rig.launch();
    const { tail } = await playOn(rig, resident, "Ask behind.");
    await until("the end of its own turn", () => rig.unrequested.some((each) => each.includes("ended")));
    await resident.stop();
    if (isOld) {
      expect(await rig.resume(locatorOf(resident, tail))).toMatchObject({
        kind: "not_resumed",
        resume: { kind: "lost", reason: expect.stringContaining("on a branch") },
      });
    }
    // Asked without a proof, the CLI goes on with what it has.
    await resumeAndSay(rig, resident, isOld ? null : tail, "Resumed behind.");
    const kept = isOld ? ["Ask behind."] : ["Ask behind.", "Started.", "Reply behind."];
    expect(conversation(model)).toEqual([...kept, "Noticed.", "Resumed behind."]);
  });
}

async function ownModel(atEnd: AtEnd): Promise<ModelServer> {
  const model = await startModelServer();
  atEnd(() => model.close());
  return model;
}

/** The driver without what it knows of versions, on the real CLI. */
function unretired(
  version: ClaudeVersion,
  model: ModelServer,
  { atEnd, background }: { atEnd: AtEnd; background: boolean },
): Promise<Rig> {
  const command = claudeCommand(version);
  const modelUrl = new URL(model.url).origin;
  return createRig({ command, version, ranges: {}, launch: { background }, modelUrl, atEnd });
}

async function resumeAndSay(
  rig: Rig,
  from: Resident,
  tail: TailReference | null,
  text: string,
): Promise<void> {
  const result = await rig.resume(locatorOf(from, tail));
  if (result.kind !== "resumed") throw new Error(`not resumed: ${JSON.stringify(result)}`);
  await playOn(rig, result.resident, text);
  await result.resident.stop();
}
