// Bench 5: a turn's transitions in the real store, for a member with a short and with a long history. Baselines: one
// record appended to a file and synced; the whole state written anew, encoded once.
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { admitTurn } from "../../controller/admission.ts";
import { openStore } from "../../controller/store/open-store.ts";
import type { Store } from "../../controller/store/store.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Evidence } from "../../protocol/evidence.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import type { Bench, BenchContext } from "./bench.ts";
import { median, percentile, ratios } from "./figures.ts";
import { MEMBER } from "./member.ts";
import { SNAPSHOT_BYTES, snapshotFolder, stateOfSize, writeSnapshot } from "./snapshot.ts";

const SNAPSHOTS_A_ROUND = 3;
const SANDBOX = "sb-bench";
const MEMBER_ID = "m-bench";
const NATIVE_ID = "ses_00000000000000000000000001";
const RECORD_BYTES = 1024;
/** What a launch is, in the size in which the controller writes it. */
export const LAUNCH = Buffer.from(
  JSON.stringify({ image: `sha256:${"0".repeat(64)}`, cli: "opencode", ...MEMBER }),
);

interface History {
  store: Store;
  turns: number;
  seq: number;
}

interface Steps {
  admitMs: number[];
  launchMs: number[];
  eventMs: number[];
  settleMs: number[];
}

function openAt(directory: string): Store {
  return openStore({ directory, nowAt: () => Date.now(), cliVersion: () => "1" });
}

/** A store whose one member has had so many turns: some by the store itself, then copies of one of them. */
function history(directory: string, turns: number): History {
  const first = openAt(directory);
  first.createSandbox({ id: SANDBOX, kind: "process", directory });
  first.bindContainer(SANDBOX, {
    sandboxId: SANDBOX,
    generation: 1,
    containerId: "bench",
    imageId: "none",
    helperSha256: "0".repeat(64),
  });
  first.createMember({
    id: MEMBER_ID,
    sandbox: SANDBOX,
    cli: "opencode",
    options: MEMBER,
  });
  first.follow(SANDBOX, { journalId: "bench", epoch: 1, seq: 0, acked: 0 });
  const made: History = { store: first, turns: 0, seq: 0 };
  const own = Math.min(turns, 10);
  const steps = noSteps();
  for (let at = 0; at < own; at += 1) oneTurn(made, steps);
  if (turns === own) return made;
  first.close();
  multiply(join(directory, "holdfast.db"), own, turns);
  return { store: openAt(directory), turns, seq: made.seq };
}

function noSteps(): Steps {
  return { admitMs: [], launchMs: [], eventMs: [], settleMs: [] };
}

/** Copies the last turn with its events and locator until there are so many; the member counts them as its own. */
function multiply(path: string, from: number, to: number): void {
  const database = new DatabaseSync(path);
  const columns = (name: string) =>
    (database.prepare(`SELECT name FROM pragma_table_info('${name}')`).all() as Array<{ name: string }>).map(
      (column) => column.name,
    );
  const copy = (name: string, replaced: Record<string, string>, where: string) =>
    database.exec(
      `WITH RECURSIVE n(copy) AS (SELECT ${from + 1} UNION ALL SELECT copy + 1 FROM n WHERE copy < ${to})
       INSERT INTO ${name} SELECT ${columns(name)
         .map((column) => replaced[column] ?? `${name}.${column}`)
         .join(", ")} FROM n, ${name} WHERE ${where}`,
    );
  database.exec("PRAGMA synchronous = OFF; BEGIN");
  copy("turns", { id: "'turn-' || copy", number: "copy" }, `turns.number = ${from}`);
  copy("turn_events", { turn: "'turn-' || copy" }, `turn_events.turn = 'turn-${from}'`);
  copy("locator_history", { settled_turns: "copy" }, `locator_history.settled_turns = ${from}`);
  database.prepare("UPDATE members SET submissions = ?, settled_turns = ?").run(to, to);
  database.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

/** All that a successful turn writes here, in the batches in which it usually comes. */
function oneTurn(of: History, steps: Steps): void {
  of.turns += 1;
  const id = `turn-${of.turns}`;
  const ids = { member: MEMBER_ID, turn: id };
  const timed = (kept: number[], work: () => unknown) => {
    const beganMs = performance.now();
    work();
    kept.push(performance.now() - beganMs);
  };
  const apply = (...events: ControlEvent[]) => {
    const entries = events.map((event) => {
      of.seq += 1;
      return { seq: of.seq, at: Date.now(), event };
    });
    of.store.apply(SANDBOX, entries);
  };
  timed(steps.admitMs, () => admitTurn(of.store, MEMBER_ID, "What is the code word?", id));
  timed(steps.launchMs, () => of.store.noteLaunch(id, LAUNCH, 0));
  timed(steps.eventMs, () =>
    apply(
      { type: "turn.accepted", ...ids, number: of.turns },
      {
        type: "turn.context",
        ...ids,
        status: of.turns === 1 ? "NEW" : "LIVE",
        reason: "bench",
        nativeId: NATIVE_ID,
      },
    ),
  );
  timed(steps.eventMs, () =>
    apply(
      { type: "turn.gated", ...ids, evidence: evidence("canary_returned") },
      { type: "turn.submitting", ...ids, nativeMessage: `msg_${of.turns}` },
    ),
  );
  timed(steps.eventMs, () => apply({ type: "turn.delivered", ...ids }));
  timed(steps.settleMs, () =>
    apply({ type: "turn.ended", ...ids, number: of.turns, settlement: settlement(of.turns) }),
  );
}

function evidence(what: string): Evidence {
  return {
    what,
    source: "stream",
    processGeneration: 1,
    subscription: 1,
    sequence: 1,
    at: 1_800_000_000_000,
    detail: "bench",
  };
}

export function settlement(number: number): Settlement {
  return {
    outcome: "completed",
    settled: true,
    context: number === 1 ? "NEW" : "LIVE",
    contextReason: "bench",
    session: {
      nativeId: NATIVE_ID,
      directory: "/workspace",
      tail: { role: "assistant", id: `msg_${number}` },
      isVerified: true,
    },
    processGeneration: 1,
    parts: ["The code word is heron."],
    textIsCut: false,
    textIsPartial: false,
    usage: { ...NO_USAGE, source: "cli", inputTokens: 100, outputTokens: 10 },
    evidence: ["canary_returned", "submit_accepted", "own_user_message", "root_idle", "session_by_id"].map(
      evidence,
    ),
    timings: {
      admitMs: 1,
      prepareMs: 1,
      gateMs: 5,
      submitMs: 20,
      firstEventMs: 5,
      settleMs: 100,
      verifyMs: 3,
      totalMs: 135,
    },
    error: null,
    keepsProcess: true,
  };
}

async function appendAndSync(file: FileHandle, bytes: Buffer): Promise<number> {
  const beganMs = performance.now();
  await file.appendFile(bytes);
  await file.datasync();
  return performance.now() - beganMs;
}

async function measure(context: BenchContext) {
  const { isQuick, scope, say } = context;
  say("store: making the histories");
  const lengths = [10, 10_000] as const;
  const histories = lengths.map((turns) => history(join(context.directory, `s${turns}`), turns));
  scope.defer(() => {
    for (const { store } of histories) store.close();
  });
  const file = await open(join(context.directory, "appended"), "a");
  scope.defer(() => file.close());

  const rounds = isQuick ? 3 : 7;
  const turns = isQuick ? 30 : 60;
  const bytes = Buffer.alloc(RECORD_BYTES, "x");
  const of = () => ({
    admit: [] as number[],
    event: [] as number[],
    settle: [] as number[],
    both: [] as number[],
    step: [] as number[],
  });
  const kept = lengths.map(of);
  const appends: number[] = [];
  const p99s = lengths.map((): number[] => []);
  const snapshots = {
    folder: await snapshotFolder(context.directory),
    writes: [] as number[],
    encodings: [] as number[],
  };
  const state = stateOfSize(settlement(1), SNAPSHOT_BYTES);
  for (let round = 0; round < rounds; round += 1) {
    say(`store: round ${round + 1} of ${rounds}`);
    const steps = lengths.map(noSteps);
    const synced: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      for (const [at, each] of histories.entries()) oneTurn(each, steps[at] as Steps);
      synced.push(await appendAndSync(file, bytes));
    }
    appends.push(percentile(synced, 0.5));
    const written = [];
    for (let times = 0; times < SNAPSHOTS_A_ROUND; times += 1)
      written.push(await writeSnapshot(snapshots.folder, state));
    snapshots.writes.push(median(written.map(({ totalMs }) => totalMs)));
    snapshots.encodings.push(median(written.map(({ encodeMs }) => encodeMs)));
    for (const [at, { admitMs, launchMs, eventMs, settleMs }] of steps.entries()) {
      const both = admitMs.map((ms, turn) => ms + (settleMs[turn] ?? 0));
      kept[at]?.admit.push(percentile(admitMs, 0.5));
      kept[at]?.event.push(percentile(eventMs, 0.5));
      kept[at]?.settle.push(percentile(settleMs, 0.5));
      kept[at]?.step.push(percentile([...admitMs, ...launchMs, ...eventMs, ...settleMs], 0.5));
      kept[at]?.both.push(percentile(both, 0.5));
      p99s[at]?.push(percentile(both, 0.99));
    }
  }

  const [short, long] = [kept[0] ?? of(), kept[1] ?? of()];
  const ratio = (name: keyof ReturnType<typeof of>) =>
    long[name].map((ms, at) => ms / (short[name][at] ?? Number.NaN));
  const rows = [
    { name: "10 turns", figures: short, tails: p99s[0] ?? [] },
    { name: "10 000 turns", figures: long, tails: p99s[1] ?? [] },
  ];
  return {
    title: "admission and settlement in the store",
    figures: [
      ...rows.flatMap(({ name, figures, tails }) => [
        { what: `admission p50, ${name}`, unit: "ms", values: figures.admit },
        { what: `a batch of events p50, ${name}`, unit: "ms", values: figures.event },
        { what: `settlement p50, ${name}`, unit: "ms", values: figures.settle },
        { what: `both p50, ${name}`, unit: "ms", values: figures.both, aim: { atMost: 1 } },
        { what: `both p99, ${name}`, unit: "ms", values: tails },
        { what: `any of the six steps p50, ${name}`, unit: "ms", values: figures.step },
      ]),
      { what: "admission, 10 000 by 10", unit: "", values: ratio("admit"), aim: { atMost: 1.2 } },
      { what: "settlement, 10 000 by 10", unit: "", values: ratio("settle"), aim: { atMost: 1.2 } },
      { what: "any step, 10 000 by 10", unit: "", values: ratio("step"), aim: { atMost: 1.2 } },
      { what: "a snapshot of 9.4 MB, encoded once", unit: "ms", values: snapshots.writes },
      { what: "in it: the encoding", unit: "ms", values: snapshots.encodings },
      {
        what: "a snapshot by any step, 10 000 turns",
        unit: "",
        values: ratios(snapshots.writes, long.step),
        aim: { atLeast: 100 },
      },
      { what: `append of ${RECORD_BYTES} bytes and fdatasync p50`, unit: "ms", values: appends },
      {
        what: "a durable step by an append",
        unit: "",
        values: short.both.map((ms, at) => ms / 2 / (appends[at] ?? Number.NaN)),
      },
    ],
    notes: [
      `SQLite, WAL, synchronous=FULL. A run is ${turns} turns of each member, in turn with each other and with the append; a turn is ` +
        "six durable steps: admission, its launch configuration, three batches of events, settlement. Both is admission + settlement of one turn. " +
        `The short history grows by the measured turns, to ${10 + rounds * turns}.`,
      `A snapshot is the state as JSON of ${SNAPSHOT_BYTES} bytes: encoded, written beside the last one, fsync, rename, fsync of the folder.`,
      "The long history is made of copies of one settled turn with its events and locator.",
    ],
  };
}

export const storeBench: Bench = {
  name: "store",
  about:
    "admission and settlement transitions for a member of 10 and of 10 000 turns, against append and fdatasync and against a snapshot of all",
  measure,
};
