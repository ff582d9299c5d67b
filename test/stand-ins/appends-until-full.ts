// Opens the journal at argv[2] and appends until it can't, then tries once more. Prints what came of it.
// Run under a limit of the file size (`ulimit -f`) it plays a full disk.
import { openJournal } from "../../bridge/journal.ts";
import { HoldfastError } from "../../protocol/errors.ts";

const [, , path = ""] = process.argv;
const log = { info: () => undefined, warn: () => undefined };
const journal = await openJournal(path, { nowAt: () => 0, log });
const codes: string[] = [];
let durable = 0;
for (let turn = 1; codes.length < 2 && turn < 10_000; turn += 1) {
  try {
    await journal.append({ type: "turn.accepted", member: "m-1", turn: `t-${turn}`, number: turn });
    durable = turn;
  } catch (error) {
    codes.push(error instanceof HoldfastError ? error.code : String(error));
  }
}
process.stdout.write(JSON.stringify({ durable, codes, head: journal.state.head }));
