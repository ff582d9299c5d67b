/** `holdfast usage`: what models used, by turn, member or sandbox, as their providers and as the CLIs state it. */
import { HoldfastError } from "../../protocol/errors.ts";
import { COUNTERS, type CounterName } from "../relay/call-sums.ts";
import type { ModelCall } from "../relay/model-call.ts";
import type { Budget } from "../store/budgets.ts";
import type { CallsOf } from "../store/model-calls.ts";
import type { Store } from "../store/store.ts";
import { SHARED_COUNTERS, type UsageReport, usageReport } from "../usage-report.ts";
import { type Command, text, type Values } from "./command.ts";
import { iso, type Output, table } from "./output.ts";
import { readStore } from "./read-store.ts";

/** Turns of a member and calls of a turn that are shown, newest first. */
const SHOWN = 20;

export const usage: Command = {
  name: "usage",
  summary: "Shows what models used, as their providers and as the CLIs state it.",
  usage: "[--turn ID | --member ID | --sandbox ID] [--json]    (none of them: every sandbox)",
  options: { turn: { type: "string" }, member: { type: "string" }, sandbox: { type: "string" } },
  words: { min: 0, max: 0 },
  async run({ values, environment, output }) {
    const of = asked(values);
    if (of === null) {
      const parts = readStore(environment, sandboxesOf) ?? [];
      if (output.isJson) output.json({ of, parts });
      else if (parts.length === 0) output.line("no sandboxes");
      else showParts("SANDBOX", parts, output);
      return 0;
    }
    const look = readStore(environment, (store) => looked(store, of));
    // Without a store there is none of anything.
    if (look === null) throw unknown(of);
    if (output.isJson) output.json(look);
    else show(look, output);
    return 0;
  },
};

/** Null: nothing was named. Throws USAGE. */
function asked(values: Values): CallsOf | null {
  const named = (["turn", "member", "sandbox"] as const).flatMap((name) => {
    const id = text(values, name);
    return id === undefined ? [] : [{ name, id }];
  });
  const [first, second] = named;
  if (second !== undefined)
    throw new HoldfastError("USAGE", "usage: it takes one of --turn, --member and --sandbox");
  if (first === undefined) return null;
  const { name, id } = first;
  return name === "turn" ? { turn: id } : name === "member" ? { member: id } : { sandbox: id };
}

function unknown(of: CallsOf): HoldfastError {
  if ("turn" in of) return new HoldfastError("TURN_UNKNOWN", `no turn ${of.turn}`);
  if ("member" in of) return new HoldfastError("MEMBER_UNKNOWN", `no member ${of.member}`);
  return new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${of.sandbox}`);
}

interface Part {
  id: string;
  report: UsageReport;
}

/** What was asked for, with what it is made of: members of a sandbox, turns of a member, calls of a turn. */
interface Looked {
  of: CallsOf;
  report: UsageReport;
  parts: Part[];
  calls: ModelCall[];
}

function looked(store: Store, of: CallsOf): Looked {
  const report = usageReport(store, of);
  if ("turn" in of) return { of, report, parts: [], calls: store.calls.list(of, SHOWN) };
  const parts =
    "member" in of
      ? store
          .turnsOf(of.member, SHOWN)
          .map(({ id }): Part => ({ id, report: usageReport(store, { turn: id }) }))
      : store
          .membersOf(of.sandbox)
          .map(({ id }): Part => ({ id, report: usageReport(store, { member: id }) }));
  return { of, report, parts, calls: [] };
}

/** Removed ones used something, too. */
function sandboxesOf(store: Store): Part[] {
  return store
    .sandboxes()
    .map(({ id }): Part => ({ id, report: usageReport(store, { sandbox: id }) }))
    .filter(({ id, report }) => report.calls.calls > 0 || store.sandbox(id)?.wanted !== "removed");
}

const NAMES: Readonly<Record<CounterName, string>> = {
  inputTokens: "input",
  outputTokens: "output",
  reasoningTokens: "reasoning",
  cacheReadTokens: "cache read",
  cacheWriteTokens: "cache write",
  allInputTokens: "all input",
  allOutputTokens: "all output",
};

function show({ of, report, parts, calls }: Looked, output: Output): void {
  const [kind, id] = Object.entries(of)[0] ?? ["", ""];
  output.line(`${kind} ${id}`, "bold");
  showReport(report, output);
  if (parts.length > 0) {
    output.line();
    showParts(kind === "sandbox" ? "MEMBER" : "TURN", parts, output);
  }
  if (calls.length > 0) {
    output.line();
    showCalls(calls, output);
  }
}

function showReport({ calls, unrequested, cli, difference, budget }: UsageReport, output: Output): void {
  const { dueCalls, knownCalls, prefixes } = calls;
  const alone = unrequested.calls === 0 ? "" : `; ${unrequested.calls} with no turn of ours`;
  output.line(`calls  ${calls.calls}: ${knownCalls} of ${dueCalls} calls known${alone}`);
  output.line(`turns  ${cli.turns} ended: ${cli.knownTurns} of ${cli.turns} known by the CLI`);
  const verdicts = Object.entries(prefixes).filter(([, count]) => count > 0);
  if (verdicts.length > 0)
    output.line(`prefix ${verdicts.map(([name, count]) => `${count} ${name}`).join(", ")}`);
  if (budget !== null) output.line(budgetLine(budget));
  const isShared = (name: CounterName): name is (typeof SHARED_COUNTERS)[number] =>
    SHARED_COUNTERS.some((shared) => shared === name);
  output.line();
  output.line(
    table(
      ["TOKENS", "RELAY", "KNOWN", "CLI", "DIFFERENCE"],
      COUNTERS.map((name) => {
        const { tokens, knownTokens, knownCalls: stated } = calls.counters[name];
        const own = isShared(name) ? [figure(cli.usage[name]), signed(difference[name])] : ["-", "-"];
        return [NAMES[name], figure(tokens), `${knownTokens} in ${stated} of ${dueCalls} calls`, ...own];
      }),
    ),
  );
}

function budgetLine({ limitTokens, spentTokens, reservedTokens, remainingTokens }: Budget): string {
  const used = `${spentTokens} spent, ${reservedTokens} reserved`;
  return `budget ${limitTokens} tokens of the member: ${used}, ${remainingTokens} remaining`;
}

function showParts(name: string, parts: readonly Part[], output: Output): void {
  const rows = parts.map(({ id, report: { calls, cli, difference } }) => [
    id,
    `${calls.knownCalls} of ${calls.dueCalls}`,
    figure(calls.counters.inputTokens.tokens),
    figure(calls.counters.cacheReadTokens.tokens),
    figure(calls.counters.outputTokens.tokens),
    figure(cli.usage.inputTokens),
    figure(cli.usage.outputTokens),
    `${signed(difference.inputTokens)} / ${signed(difference.outputTokens)}`,
  ]);
  const head = ["CALLS KNOWN", "INPUT", "CACHE READ", "OUTPUT", "CLI INPUT", "CLI OUTPUT", "DIFFERENCE"];
  output.line(table([name, ...head], rows));
}

function showCalls(calls: readonly ModelCall[], output: Output): void {
  const rows = calls.map(({ startedAt, model, status, outcome, usage: used, prefix, answerId, id }) => [
    iso(startedAt),
    model ?? "-",
    status === null ? "-" : String(status),
    outcome,
    figure(used.inputTokens),
    figure(used.cacheReadTokens),
    figure(used.outputTokens),
    prefix?.verdict ?? "-",
    answerId ?? "-",
    id,
  ]);
  const head = [
    "AT",
    "MODEL",
    "STATUS",
    "OUTCOME",
    "INPUT",
    "CACHE READ",
    "OUTPUT",
    "PREFIX",
    "ANSWER",
    "CALL",
  ];
  output.line(table(head, rows));
}

function figure(tokens: number | null): string {
  return tokens === null ? "unknown" : String(tokens);
}

function signed(tokens: number | null): string {
  return tokens === null ? "unknown" : `${tokens > 0 ? "+" : ""}${tokens}`;
}
