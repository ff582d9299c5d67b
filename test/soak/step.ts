/** One step of a soak: one or two members take a turn, something happens, and every invariant is looked at afterwards. */
import { readdirSync } from "node:fs";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { judge } from "../fault/judge.ts";
import type { TestHost } from "../support/host.ts";
import type { StepInput } from "../support/model/steps.ts";
import type { PrivateEngine } from "../support/private-engine.ts";
import { play } from "../support/turns.ts";
import { until, within } from "../support/until.ts";
import type { Chance } from "./chance.ts";
import type { Crew, Mate } from "./crew.ts";
import type { Fault } from "./faults.ts";
import type { Tally } from "./tally.ts";

/** Longer than all that may follow a fault on a loaded machine: a revival, a start of a CLI, a retry of its own. */
const END_MS = 180_000;
const STRIKE_MS = 60_000;
const TIDY_MS = 20_000;
const SLOW = Array.from({ length: 25 }, (_, at) => `piece ${at}, `);

export interface Soak {
  t: TestHost;
  crew: Crew;
  chance: Chance;
  tally: Tally;
  engine: PrivateEngine | null;
  /** The store lies on a small disk of its own. */
  storeIsSmall: boolean;
  say(line: string): void;
}

interface Play {
  mate: Mate;
  text: string;
  whole: string;
  steps: StepInput[] | null;
  /** Null: it can be one or the other. */
  context: "NEW" | "LIVE" | "RESTORED" | null;
  before: Parameters<typeof judge>[0]["before"];
  turn: string | null;
}

const MOMENTS = ["before", "turn.accepted", "turn.submitting", "turn.delivered", "later"] as const;
type Moment = (typeof MOMENTS)[number];

/** Returns what is wrong, a line each. */
export async function takeStep(soak: Soak, number: number, fault: Fault): Promise<string[]> {
  const { t, crew, chance, tally } = soak;
  const meant = chance.pick(crew.mates());
  const team = chance.next() < 0.5 ? crew.around(meant).slice(0, 2) : [meant];
  const moment = fault.name === "none" ? "before" : chance.pick(MOMENTS);
  // Each text is its own: what the model received is told apart by it.
  const plays = team.map((mate, at) => plan(soak, mate, `${number}.${at + 1}`));
  const delayMs = chance.below(700);
  soak.say(
    `step ${number}: ${fault.name} ${moment}; ${plays.map(({ text }) => JSON.stringify(text)).join(" and ")}`,
  );
  t.model.reset();
  for (const { text, steps } of plays) if (steps !== null) t.model.script(text, steps);
  tally.fault(fault.name);

  if (moment === "before") await strike(soak, fault, meant);
  for (const each of plays) each.turn = submit(soak, fault, each);
  const attending = new AbortController();
  const attended = attend(t, plays, attending.signal);
  if (moment !== "before") {
    await reached(t, plays[0]?.turn ?? null, moment, delayMs);
    await strike(soak, fault, meant);
  }
  const violations: string[] = [];
  try {
    for (const each of plays)
      violations.push(...(await ended(soak, fault, each, { isMeant: each.mate === meant, moment })));
  } finally {
    attending.abort();
    await attended;
  }
  if (fault.isEnd === true) violations.push(...(await bury(soak, meant)));
  else if (violations.length === 0) violations.push(...(await tidied(soak, meant)));
  return violations.map((line) => `step ${number}, ${fault.name} ${moment}: ${line}`);
}

function plan({ t, chance, crew }: Soak, mate: Mate, number: string): Play {
  const { locator, settled_turns: settledTurns } = t.host.member(mate.member);
  const play = {
    mate,
    before: { locator, settledTurns },
    context: contextOf(crew, mate, settledTurns),
    turn: null,
  };
  const { tools } = mate.subject;
  if (!mate.wasTold)
    return {
      ...play,
      text: `The code word is ${mate.word}, number ${number}.`,
      whole: `Noted: ${mate.word}.`,
      steps: null,
    };
  const tool = (command: string): StepInput => ({ kind: "reply", toolCalls: [tools.shell(command)] });
  const kinds: Array<Pick<Play, "text" | "whole" | "steps">> = [
    {
      text: `What is the code word, number ${number}?`,
      whole: `The code word is ${mate.word}.`,
      steps: null,
    },
    {
      text: `Say it slowly, number ${number}.`,
      whole: SLOW.join(""),
      steps: [{ kind: "reply", text: SLOW, betweenChunksMs: 40 }],
    },
    { text: `Use a tool, number ${number}.`, whole: "Used.", steps: [tool("sleep 0.7; echo done"), "Used."] },
    { text: `Ask me first, number ${number}.`, whole: "Ran.", steps: [tool(`echo asked ${number}`), "Ran."] },
    { text: `Fail at it, number ${number}.`, whole: "Failed.", steps: [tool("exit 3"), "Failed."] },
  ];
  return { ...play, ...chance.pick(kinds) };
}

/** What the next turn's context must be, from the processes themselves and from what the last turn left. */
function contextOf(crew: Crew, mate: Mate, settledTurns: number): Play["context"] {
  if (settledTurns === 0) return "NEW";
  const { last } = mate;
  if (last === null || last.outcome === "not_sent" || last.outcome === "refused") return null;
  const pid = crew.cli(mate)?.pid ?? null;
  return last.outcome !== "unknown" && last.keepsProcess && pid !== null && pid === last.pid
    ? "LIVE"
    : "RESTORED";
}

/** Null when the host could not take it, which is said in a way of its own. */
function submit({ t, tally }: Soak, fault: Fault, { mate, text }: Play): string | null {
  try {
    return t.host.submit(mate.member, text).id;
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "DISK_FULL") throw error;
    tally.notAdmitted(fault.name, error.code);
    return null;
  }
}

async function strike(soak: Soak, fault: Fault, meant: Mate): Promise<void> {
  const { t, crew, engine } = soak;
  const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  const cli = () => crew.cli(meant);
  const place = crew.place(meant);
  const work = fault.strike({ t, sandbox: meant.sandbox, place, cli, engine, wait });
  await within(`the fault: ${fault.name}`, work, STRIKE_MS);
}

/** Until the turn is there, or has ended before. */
async function reached(t: TestHost, turn: string | null, moment: Moment, delayMs: number): Promise<void> {
  if (turn === null) return;
  const type = moment === "later" ? "turn.delivered" : moment;
  await until(
    `${turn} at ${moment}`,
    () =>
      t.host.turn(turn).ended_at !== null ||
      t.host.store.eventsOf(turn).some(({ event }) => event.type === type),
    END_MS,
  );
  if (moment === "later") await new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** The user, who allows whatever is asked for as long as the step lasts. */
async function attend(t: TestHost, plays: readonly Play[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for (const { mate, turn } of plays) {
      if (turn === null) continue;
      try {
        for (const asked of t.host.openRequests(mate.member)) {
          if (asked.type !== "turn.permission_asked") continue;
          const { session, request } = asked.request;
          await t.host.answerPermission({ turn, session, request, reply: "once" });
        }
      } catch {
        // A host that is away, a turn that has ended, a bridge that is gone: asked again in a moment.
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function ended(
  { t, crew, tally }: Soak,
  fault: Fault,
  { mate, text, whole, before, context, turn }: Play,
  { isMeant, moment }: { isMeant: boolean; moment: Moment },
): Promise<string[]> {
  if (turn === null) return [];
  await until(`the end of ${turn}`, () => t.host.turn(turn).ended_at !== null, END_MS);
  const row = t.host.turn(turn);
  const settlement = row.settlement as Settlement;
  const { violations, retries } = judge({
    text,
    whole,
    before,
    member: t.host.member(mate.member),
    turn: row,
    events: t.host.store.eventsOf(turn).map(({ event }) => event),
    requests: t.model.mainRequests(),
  });
  tally.outcome(fault.name, settlement, retries);
  const right = isMeant ? fault.meant : fault.others;
  const { outcome } = settlement;
  if (!right.includes(outcome)) violations.push(`${outcome} is not among ${right.join(", ")}`);
  const isCertain = fault.name === "none" || moment === "turn.delivered" || moment === "later";
  if (settlement.context !== null && isCertain && context !== null && settlement.context !== context)
    violations.push(`the context is ${settlement.context}, and must be ${context}`);
  if (settlement.context === "LOST" && fault.isEnd !== true) violations.push("the conversation is LOST");
  if (outcome === "completed" && text.startsWith("The code word")) mate.wasTold = true;
  if (outcome === "unknown") t.host.recordInspection(turn, "looked at by the soak");
  mate.last = { pid: crew.cli(mate)?.pid ?? null, keepsProcess: settlement.keepsProcess, outcome };
  return violations.map(
    (line) =>
      `${mate.member} ${turn} ${line}: ${JSON.stringify({ outcome, error: settlement.error, evidence: settlement.evidence.map(({ what }) => what), context: settlement.context })}`,
  );
}

/** What a dead container leaves is LOST, costs the model nothing, and is replaced. */
async function bury({ t, crew }: Soak, meant: Mate): Promise<string[]> {
  const violations: string[] = [];
  t.model.reset();
  for (const mate of crew.around(meant)) {
    const { settled_turns: settledTurns } = t.host.member(mate.member);
    if (settledTurns === 0) continue;
    const { settlement } = await play(t, mate.member, "Are you there?");
    if (settlement.context !== "LOST" || settlement.outcome !== "refused")
      violations.push(`after the removal: ${settlement.outcome}, ${settlement.context}`);
  }
  if (t.model.requests().length > 0) violations.push("a LOST member's turn reached the model");
  await crew.replace(meant.sandbox);
  return violations;
}

/** No process, no file and no container is left that does not belong there. */
async function tidied({ t, crew, say }: Soak, meant: Mate): Promise<string[]> {
  let problem = "";
  const isTidy = async () => {
    problem = await untidy(t, crew, meant);
    return problem === "";
  };
  try {
    await until("a tidy sandbox", isTidy, TIDY_MS);
    return [];
  } catch (error) {
    say(String(error));
    return [problem];
  }
}

async function untidy(t: TestHost, crew: Crew, meant: Mate): Promise<string> {
  const mates = crew.around(meant);
  const place = crew.place(meant);
  const texts = mates.map(({ subject }) => subject.processText);
  const slots = place.processes().filter(({ uid }) => uid !== 0);
  const strange = slots.filter(({ command }) => !texts.some((text) => command.includes(text)));
  if (strange.length > 0) return `left: ${strange.map(({ pid, command }) => `${pid} ${command}`).join("; ")}`;
  if (slots.length > mates.length) return `${slots.length} CLIs for ${mates.length} members`;
  const state = place.list("/var/lib/holdfast").filter((name) => name !== "journal");
  if (state.length > 0) return `the bridge's state has ${state.join(" ")}`;
  const row = t.host.store.sandbox(meant.sandbox);
  const shared = readdirSync(row?.directory ?? "").filter(
    (name) => !/^(bridge\.json|(ctl|model)\.sock|token)$/.test(name),
  );
  if (shared.length > 0) return `the sandbox's folder has ${shared.join(" ")}`;
  const driver = t.setup.drivers.find(({ kind }) => kind === "docker");
  const containers = (await driver?.list(t.host.store.id))?.filter(
    ({ sandboxId }) => sandboxId === meant.sandbox,
  );
  return containers?.length === 1 ? "" : `${containers?.length ?? 0} containers`;
}
