/** `holdfast member ls|inspect`: the members, and what is known of one: its next context, conversation and turns. */
import { asHoldfastError, HoldfastError } from "../../protocol/errors.ts";
import type { Locator } from "../../protocol/locator.ts";
import type { NextContext } from "../next-context.ts";
import { outlookOf } from "../outlook.ts";
import type { MemberRow, TurnRow } from "../store/records.ts";
import type { Store, UnrequestedEntry } from "../store/store.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";
import { commandSetup, NO_MODEL, openCommandHost } from "./open.ts";
import { iso, type Output, oneLine, table } from "./output.ts";
import { readStore } from "./read-store.ts";

/** Turns and saved locators that are shown, newest first. */
const SHOWN = 10;

export const memberList: Command = {
  name: "member ls",
  summary: "Lists members with their last turn, and whether one waits for a note.",
  usage: "[--json]",
  options: {},
  words: { min: 0, max: 0 },
  async run({ environment, output }) {
    const members = readStore(environment, listed) ?? [];
    if (output.isJson) output.json(members);
    else if (members.length === 0) output.line("no members");
    else {
      const rows = members.map((row) => [
        row.id,
        row.sandbox,
        row.cli,
        String(row.settledTurns),
        row.lastTurn ?? "-",
        row.waitsForNote === null ? (row.nativeId ?? "") : `a note on turn ${row.waitsForNote} is needed`,
      ]);
      output.line(table(["MEMBER", "SANDBOX", "CLI", "SETTLED", "LAST TURN", "NATIVE ID"], rows));
    }
    return 0;
  },
};

function listed(store: Store) {
  const sandboxes = store.sandboxes().filter(({ wanted }) => wanted !== "removed");
  return sandboxes.flatMap(({ id }) =>
    store.membersOf(id).map((member) => ({
      id: member.id,
      sandbox: member.sandbox,
      cli: member.cli,
      settledTurns: member.settled_turns,
      lastTurn: store.turnsOf(member.id, 1)[0]?.state ?? null,
      waitsForNote: store.unknownTurnOf(member.id)?.id ?? null,
      nativeId: member.locator?.nativeId ?? null,
    })),
  );
}

export const memberInspect: Command = {
  name: "member inspect",
  summary: "Shows the context that a member's next turn would have, and why, without spending it.",
  usage: "ID [--json]",
  options: {},
  words: { min: 1, max: 1 },
  async run({ words: [id = ""], environment, output }) {
    const known = readStore(environment, (store) => kept(store, id));
    if (known === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${id}`);
    const next = await outlook(environment, output, id);
    if (output.isJson) output.json({ ...known, next });
    else show(known, next, output);
    return 0;
  },
};

interface Kept {
  member: MemberRow;
  history: Locator[];
  turns: TurnRow[];
  unrequested: UnrequestedEntry[];
}

function kept(store: Store, id: string): Kept | null {
  const member = store.member(id);
  if (member === null) return null;
  const history = store.locatorHistory(id).slice(-SHOWN).reverse();
  const unrequested = store.unrequestedOf(id).slice(-SHOWN);
  return { member, history, turns: store.turnsOf(id, SHOWN), unrequested };
}

/** As the store's owner where that is to be had; beside another owner from the store alone, which says less. */
async function outlook(environment: Environment, output: Output, id: string): Promise<NextContext> {
  try {
    const { host, close } = await openCommandHost({ environment, output, relay: NO_MODEL });
    try {
      return await host.nextContext(id);
    } finally {
      await close();
    }
  } catch (error) {
    if (asHoldfastError(error).code !== "STORE_OWNED") throw error;
  }
  const setup = commandSetup(environment);
  try {
    const builds = new Map(
      await Promise.all(
        setup.drivers.map(async (driver) => [driver.kind, await driver.pinned().catch(() => null)] as const),
      ),
    );
    const next = readStore(environment, (store) => {
      const member = store.member(id);
      const sandbox = member === null ? null : store.sandbox(member.sandbox);
      if (member === null || sandbox === null) return null;
      return outlookOf({ store, member, sandbox, sight: null, pinned: builds.get(sandbox.kind) ?? null });
    });
    if (next === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${id}`);
    return next;
  } finally {
    setup.close();
  }
}

function show({ member, history, turns, unrequested }: Kept, next: NextContext, output: Output): void {
  output.line(`member ${member.id} (${member.cli}) of ${member.sandbox}`, "bold");
  output.line(`next     ${next.status ?? "not known"}: ${oneLine(next.reason)}`);
  if (next.toProve !== null)
    output.line(`proof    if ${oneLine(next.toProve)}; else LOST, and nothing is sent`);
  if (next.launchChanges.length > 0) output.line(`launch   changed: ${next.launchChanges.join(", ")}`);
  if (next.blocked !== null) output.line(`blocked  ${oneLine(next.blocked.detail)} [${next.blocked.code}]`);
  const locator = member.pending_locator ?? member.locator;
  output.line(`settled  ${member.settled_turns} of ${member.submissions} submissions`);
  if (locator !== null) {
    const isPending = member.pending_locator !== null ? ", its id is still to be verified" : "";
    output.line(`locator  ${oneLine(`${locator.nativeId} in ${locator.directory}`)}${isPending}`);
    output.line(
      `         ${oneLine(`${locator.cli} ${locator.cliVersion}, container ${locator.container.containerId}`)}`,
    );
  }
  if (history.length > 0) {
    output.line();
    const rows = history.map((old) => [String(old.settledTurns), old.nativeId, old.tail?.id ?? "-"]);
    output.line(table(["SETTLED", "NATIVE ID", "LAST MESSAGE"], rows));
  }
  if (turns.length > 0) {
    output.line();
    const rows = turns.map((turn) => [
      String(turn.number),
      turn.id,
      turn.state,
      turn.settlement?.context ?? "-",
      iso(turn.submitted_at),
    ]);
    output.line(table(["NUMBER", "TURN", "STATE", "CONTEXT", "SUBMITTED"], rows));
  }
  if (unrequested.length > 0) {
    output.line();
    output.line("what its CLI did by itself, with no turn of ours:");
    const rows = unrequested.map(({ at, event }) => [iso(at), event.state, event.session, event.detail]);
    output.line(table(["AT", "STATE", "SESSION", "DETAIL"], rows));
  }
}
