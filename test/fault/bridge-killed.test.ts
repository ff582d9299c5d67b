/** The bridge of a plain process is killed: its CLI outlives it, unlike in a container, and must not meet its successor. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bridgeOf, processesOf } from "../conformance/suite/processes.ts";
import { OPENCODE_SUBJECT } from "../conformance/suite/served.ts";
import { createMember, startTestHost } from "../support/host.ts";
import { standIn } from "../support/stand-in.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";

const bundle = JSON.parse(readFileSync(new URL("../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; command: string[] }>;
};

test("P30, law 8: the bridge killed in a turn and started again: the old native process is gone before a new one starts on its store", async () => {
  const notes = join(temporaryDirectory(), "notes");
  const { command = [] } = bundle.clis.find(({ cli }) => cli === "opencode") ?? {};
  const t = await startTestHost({ commands: { opencode: standIn("notes-others.sh", notes, ...command) } });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "process");
  await play(t, member, "The code word is whelk.");
  const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
  const natives = async () =>
    (await processesOf(sandbox, member, OPENCODE_SUBJECT.processText)).map(({ pid }) => pid);
  const [old] = await natives();
  t.model.script("Work on", [{ kind: "neverEnd", text: "working " }]);
  const turn = follow(t.host.submit(member, "Work on."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  const killed = bridgeOf(directory);
  process.kill(killed, "SIGKILL");
  expect(await turn.end()).toMatchObject({ outcome: "unknown", settled: false });
  expect(bridgeOf(directory)).not.toBe(killed);
  // The next life has ended it, before any turn asked for another.
  await until("the old one's end", async () => (await natives()).length === 0);
  t.host.recordInspection(turn.handle.id, "the bridge was killed");
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is whelk."] });
  const now = await natives();
  expect(now).toHaveLength(1);
  expect(readFileSync(notes, "utf8").trim().split("\n")).toEqual([`start ${old}`, `start ${now[0]}`]);
});
