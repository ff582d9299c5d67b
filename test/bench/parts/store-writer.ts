// One controller's store at work: turns of a member of its own, one after the other, for a time. Says `ready`, begins with
// the first line on stdin, and ends with its figures as JSON. Everything else is the parent's.
//   node store-writer.ts '{"place":{…},"name":"w1","forMs":3000}'
import { once } from "node:events";
import { admitTurn } from "../../../controller/admission.ts";
import { openStore, type StorePlace } from "../../../controller/store/open-store.ts";
import type { ControlEvent } from "../../../protocol/events.ts";
import { percentile } from "../figures.ts";
import { MEMBER } from "../member.ts";
import { LAUNCH, settlement } from "../store.ts";

export interface WriterWords {
  place: StorePlace;
  /** Of its sandbox and member, and of its turns. */
  name: string;
  forMs: number;
}

export interface WriterFigures {
  turns: number;
  tookMs: number;
  /** One look at one row. */
  readP50Ms: number;
  readP99Ms: number;
  admitP50Ms: number;
  settleP50Ms: number;
  bothP50Ms: number;
  bothP99Ms: number;
}

const { place, name, forMs } = JSON.parse(process.argv[2] ?? "{}") as WriterWords;
const store = openStore({ ...place, nowAt: () => Date.now(), cliVersion: () => "1" });
store.createSandbox({ id: name, kind: "process", directory: "/d" });
store.bindContainer(name, {
  sandboxId: name,
  generation: 1,
  containerId: "bench",
  imageId: "none",
  helperSha256: "0".repeat(64),
});
store.createMember({ id: name, sandbox: name, cli: "opencode", options: MEMBER });
store.follow(name, { journalId: name, epoch: 1, seq: 0, acked: 0 });

const kept = { read: [] as number[], admit: [] as number[], settle: [] as number[], both: [] as number[] };
let seq = 0;

function timed(work: () => unknown): number {
  const beganMs = performance.now();
  work();
  return performance.now() - beganMs;
}

function apply(...events: ControlEvent[]): void {
  store.apply(
    name,
    events.map((event) => {
      seq += 1;
      return { seq, at: Date.now(), event };
    }),
  );
}

/** The six durable steps of a turn, and a look. */
function oneTurn(number: number): void {
  const id = `${name}-${number}`;
  const ids = { member: name, turn: id };
  const nativeId = `ses_${name}`;
  const status = number === 1 ? "NEW" : "LIVE";
  const admitMs = timed(() => admitTurn(store, name, "What is the code word?", id));
  store.noteLaunch(id, LAUNCH, 0);
  apply(
    { type: "turn.accepted", ...ids, number },
    { type: "turn.context", ...ids, status, reason: "bench", nativeId },
  );
  apply({ type: "turn.submitting", ...ids, nativeMessage: `msg_${number}` });
  apply({ type: "turn.delivered", ...ids });
  const { session, ...rest } = settlement(number);
  const settled = { ...rest, session: session === null ? null : { ...session, nativeId } };
  const settleMs = timed(() => apply({ type: "turn.ended", ...ids, number, settlement: settled }));
  kept.admit.push(admitMs);
  kept.settle.push(settleMs);
  kept.both.push(admitMs + settleMs);
  kept.read.push(timed(() => store.turn(id)));
}

process.stdout.write("ready\n");
await once(process.stdin, "data");
process.stdin.destroy();
const beganMs = performance.now();
let turns = 0;
while (performance.now() - beganMs < forMs) {
  turns += 1;
  oneTurn(turns);
}
const figures: WriterFigures = {
  turns,
  tookMs: performance.now() - beganMs,
  readP50Ms: percentile(kept.read, 0.5),
  readP99Ms: percentile(kept.read, 0.99),
  admitP50Ms: percentile(kept.admit, 0.5),
  settleP50Ms: percentile(kept.settle, 0.5),
  bothP50Ms: percentile(kept.both, 0.5),
  bothP99Ms: percentile(kept.both, 0.99),
};
store.close();
process.stdout.write(`${JSON.stringify(figures)}\n`);
