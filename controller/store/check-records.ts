/**
 * What must be true of a store's records beyond what its layout enforces: states, counters, locators, digests. Each
 * look yields one line a problem. Reads only.
 */
import { createHash } from "node:crypto";
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { ControlEvent, NumberedEvent } from "../../protocol/events.ts";
import { Locator } from "../../protocol/locator.ts";
import { isOpen, recordStateOf } from "../../protocol/record-state.ts";
import { parsedJson } from "../parsed-json.ts";
import { CallSums } from "../relay/call-sums.ts";
import { ModelCall } from "../relay/model-call.ts";
import { RequestDigest } from "../relay/request-digest.ts";
import { REVISION_BYTES, REVISIONS } from "./launch-revisions.ts";
import { ForkRow, MemberRow, SandboxRow, TurnRow } from "./records.ts";

export interface RecordLook {
  what: string;
  look(): Iterable<string>;
}

type Row = Record<string, SQLOutputValue>;

export function recordProblems(database: DatabaseSync): RecordLook[] {
  const all = (sql: string) => database.prepare(sql).iterate() as Iterable<Row>;
  return [
    { what: "meta", look: () => metaProblems(all("SELECT * FROM meta")) },
    { what: "sandbox", look: () => sandboxProblems(all("SELECT * FROM sandboxes")) },
    { what: "turn", look: () => turnProblems(all("SELECT * FROM turns")) },
    { what: "member", look: () => memberProblems(all(MEMBERS)) },
    { what: "locator history", look: () => historyProblems(all("SELECT * FROM locator_history")) },
    { what: "turn event", look: () => eventProblems(all(EVENTS)) },
    { what: "member event", look: () => memberEventProblems(all("SELECT * FROM member_events")) },
    {
      what: "inspection",
      look: () => lines(all(INSPECTIONS), (row) => `${row.turn} has a note and is ${row.state}`),
    },
    { what: "fork", look: () => forkProblems(all(FORKS)) },
    { what: "launch configuration", look: () => revisionProblems(all("SELECT * FROM launch_revisions")) },
    {
      what: "launch of a turn",
      look: () => lines(all(LAUNCHES), (row) => `turn ${row.id} names none of its member's`),
    },
    {
      what: "launch configurations",
      look: () => lines(all(TOO_MANY), (row) => `${row.member} has ${row.n} with ${row.size} bytes`),
    },
    { what: "model call", look: () => callProblems(all("SELECT * FROM model_calls")) },
    { what: "sums of calls", look: () => sumProblems(all(SUMS)) },
    { what: "chain of requests", look: () => chainProblems(all("SELECT * FROM request_chains")) },
    {
      what: "budget",
      look: () =>
        lines(all(BUDGETS), (row) => `${row.member} has used ${row.spent_tokens} of ${row.limit_tokens}`),
    },
    {
      what: "reservation",
      look: () =>
        lines(all(RESERVATIONS), (row) => `${row.call} holds ${row.tokens} for an input of ${row.estimate}`),
    },
    {
      what: "process that may call a model",
      look: () =>
        lines(all(CALLERS), (row) => `${row.member}, generation ${row.generation}, ended ${row.has_ended}`),
    },
  ];
}

/** Members with what their turns, history and native ids say of them. */
const MEMBERS = `SELECT members.*,
  (SELECT coalesce(max(number), 0) FROM turns WHERE turns.member = members.id) AS highest,
  (SELECT count(*) FROM turns WHERE turns.member = members.id AND ended_at IS NULL) AS open,
  (SELECT json_extract(source, '$.settledTurns') FROM forks WHERE forks.member = members.id) AS forked,
  (SELECT locator FROM locator_history h WHERE h.member = members.id ORDER BY settled_turns DESC, at DESC LIMIT 1) AS newest,
  (SELECT count(*) FROM native_ids n WHERE n.sandbox = members.sandbox AND n.member = members.id
    AND n.native_id IN (json_extract(members.locator, '$.nativeId'), json_extract(members.pending_locator, '$.nativeId'))) AS owned
  FROM members`;
const EVENTS = `SELECT turn_events.*, turns.member AS owner FROM turn_events LEFT JOIN turns ON turns.id = turn_events.turn`;
const INSPECTIONS = `SELECT turn, state FROM inspections JOIN turns ON turns.id = inspections.turn WHERE state <> 'unknown'`;
const LAUNCHES = `SELECT turns.id FROM turns LEFT JOIN launch_revisions r ON r.member = turns.member AND r.sha256 = turns.launch
  WHERE turns.launch IS NOT NULL AND r.sha256 IS NULL`;
const TOO_MANY = `SELECT member, count(*) AS n, sum(length(bytes)) AS size FROM launch_revisions GROUP BY member
  HAVING n > ${REVISIONS} OR size > ${REVISION_BYTES}`;

const FORKS = `SELECT forks.*, members.locator IS NOT NULL AS located, members.sandbox = parents.sandbox AS together
  FROM forks LEFT JOIN members ON members.id = forks.member LEFT JOIN members parents ON parents.id = forks.parent`;

const BUDGETS = "SELECT * FROM budgets WHERE limit_tokens < 0 OR spent_tokens < 0";
const RESERVATIONS = "SELECT * FROM reservations WHERE estimate < 0 OR tokens < estimate";
const CALLERS = "SELECT * FROM model_callers WHERE generation < 0 OR has_ended NOT IN (0, 1)";

/** What owners' calls add up to, with how many of them are kept one by one; either may be missing. */
const SUMS = `SELECT owners.*, call_sums.sums FROM
  (SELECT sandbox, coalesce(member, '') AS member, coalesce(turn, '') AS turn, count(*) AS kept
    FROM model_calls GROUP BY sandbox, member, turn) owners
  FULL JOIN call_sums USING (sandbox, member, turn)`;

function* forkProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = ForkRow.safeParse(row);
    if (!parsed.success) {
      yield unreadable(row.member, parsed.error);
      continue;
    }
    const { member, parent, state, awaits_turn, session, error } = parsed.data;
    if (row.together !== 1) yield `${member} and its parent ${parent} are not of one sandbox`;
    if ((state === "ready") !== (row.located === 1))
      yield `${member} is ${state}, and its locator says otherwise`;
    if ((state === "failed") !== (error !== null))
      yield `${member} is ${state}, and its error says otherwise`;
    if (!awaits_turn && session === null && (state === "materialized" || state === "ready"))
      yield `${member} is ${state} without a session`;
  }
}

function* lines(rows: Iterable<Row>, line: (row: Row) => string): Iterable<string> {
  for (const row of rows) yield line(row);
}

function* metaProblems(rows: Iterable<Row>): Iterable<string> {
  const found = new Map([...rows].map(({ name, value }) => [String(name), String(value)]));
  if (!/^\d+$/.test(found.get("fence") ?? "")) yield "the fence is no number";
  if (!/^[0-9a-f]{32}$/.test(found.get("id") ?? "")) yield "the store has no id";
}

function* sandboxProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = SandboxRow.safeParse(row);
    if (!parsed.success) {
      yield unreadable(row.id, parsed.error);
      continue;
    }
    const { id, container, generation, applied } = parsed.data;
    if (container !== null && (container.sandboxId !== id || container.generation !== generation))
      yield `${id} is bound to a container of ${container.sandboxId}, generation ${container.generation}`;
    if (applied < 0) yield `${id} has applied ${applied} events`;
  }
}

function* turnProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = TurnRow.safeParse(row);
    if (!parsed.success) {
      yield unreadable(row.id, parsed.error);
      continue;
    }
    const { id, state, settlement, ended_at } = parsed.data;
    if (isOpen(state)) {
      if (settlement !== null || ended_at !== null) yield `${id} is ${state} and has an end`;
    } else if (settlement === null || ended_at === null) yield `${id} is ${state} and has no end`;
    else if (recordStateOf(settlement) !== state)
      yield `${id} is ${state}, its settlement says ${recordStateOf(settlement)}`;
  }
}

function* memberProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = MemberRow.safeParse(row);
    if (!parsed.success) {
      yield unreadable(row.id, parsed.error);
      continue;
    }
    const { id, sandbox, cli, submissions, settled_turns, locator, pending_locator } = parsed.data;
    // More are those that a sandbox has taken and this store, older than it, does not have.
    if (submissions < Number(row.highest))
      yield `${id} has given ${submissions} numbers, its last turn has ${row.highest}`;
    if (Number(row.open) > 1) yield `${id} has ${row.open} open turns`;
    const last = pending_locator ?? locator;
    // A fork that is not made yet counts its parent's, and has no locator.
    const located = last?.settledTurns ?? Number(row.forked ?? 0);
    if (settled_turns !== located)
      yield `${id} has settled ${settled_turns} turns, its locator says ${located}`;
    // Byte for byte: the locator is never written but with its history.
    if (row.locator !== row.newest) yield `${id} has a locator that is not the last of its history`;
    if (last !== null && row.owned === 0) yield `${id} does not own the native id of its locator`;
    for (const named of [locator, pending_locator])
      if (named !== null && (named.cli !== cli || named.container.sandboxId !== sandbox))
        yield `${id} is a ${cli} of ${sandbox}, its locator a ${named.cli} of ${named.container.sandboxId}`;
  }
}

function* historyProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = Locator.safeParse(parsedJson(String(row.locator)));
    if (!parsed.success) yield unreadable(`${row.member}, turn ${row.settled_turns}`, parsed.error);
    else if (parsed.data.settledTurns !== row.settled_turns)
      yield `${row.member}, turn ${row.settled_turns}: its locator says ${parsed.data.settledTurns}`;
  }
}

function* eventProblems(rows: Iterable<Row>): Iterable<string> {
  for (const { turn, seq, at, event, owner } of rows) {
    const where = `${turn}, event ${seq}`;
    const parsed = NumberedEvent.safeParse({ seq, at, event: parsedJson(String(event)) });
    if (!parsed.success) yield unreadable(where, parsed.error);
    else if (parsed.data.event.member !== owner) yield `${where} is of member ${parsed.data.event.member}`;
  }
}

function* memberEventProblems(rows: Iterable<Row>): Iterable<string> {
  for (const { id, member, event } of rows) {
    const parsed = ControlEvent.safeParse(parsedJson(String(event)));
    if (!parsed.success) yield unreadable(`${member}, event ${id}`, parsed.error);
    else if (parsed.data.type !== "member.unrequested" || parsed.data.member !== member)
      yield `${member}, event ${id} is ${parsed.data.type} of member ${parsed.data.member}`;
  }
}

function* revisionProblems(rows: Iterable<Row>): Iterable<string> {
  for (const { member, sha256, bytes } of rows) {
    const isWhole =
      bytes instanceof Uint8Array && createHash("sha256").update(bytes).digest("hex") === sha256;
    if (!isWhole) yield `${member}, ${String(sha256).slice(0, 16)}… is not what was written`;
  }
}

function* callProblems(rows: Iterable<Row>): Iterable<string> {
  for (const row of rows) {
    const parsed = ModelCall.safeParse(parsedJson(String(row.call)));
    if (!parsed.success) yield unreadable(row.id, parsed.error);
    else if (["id", "sandbox", "member", "turn"].some((name) => parsed.data[name as "id"] !== row[name]))
      yield `${row.id} is kept as another's`;
  }
}

function* sumProblems(rows: Iterable<Row>): Iterable<string> {
  for (const { sandbox, member, turn, kept, sums } of rows) {
    const where = [sandbox, member, turn].filter((name) => name !== "").join(", ");
    const parsed = CallSums.safeParse(parsedJson(String(sums)));
    if (!parsed.success) yield unreadable(where, parsed.error);
    // More are those that were too many to be kept one by one.
    else if (parsed.data.calls < Number(kept ?? 0))
      yield `${where} counts ${parsed.data.calls} calls, ${kept} are kept`;
  }
}

function* chainProblems(rows: Iterable<Row>): Iterable<string> {
  for (const { key, digest } of rows) {
    const parsed = RequestDigest.safeParse(parsedJson(String(digest)));
    if (!parsed.success) yield unreadable(key, parsed.error);
  }
}

function unreadable(what: unknown, error: { issues: ReadonlyArray<{ path: PropertyKey[] }> }): string {
  return `${String(what)} can't be read (${error.issues[0]?.path.join(".") ?? ""})`;
}
