/** A sandbox stopped in order: nothing of a turn is lost, the end is clean and says so, and it comes back RESTORED. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { readRecords } from "../../bridge/journal-record.ts";
import { createMember, MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { fileOf, type Inspected, present, processesIn, processIn, stopByOperator } from "./engine.ts";
import { ownDist, withBridge } from "./variants.ts";

const JOURNAL = "/var/lib/holdfast/journal";

const containerOf = (t: TestHost, sandbox: string) =>
  t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
const journalOf = async (container: string) => readRecords(await fileOf(container, JOURNAL)).records;

function auditOf(t: TestHost, what: string): string[] {
  const database = new DatabaseSync(join(t.directory, "holdfast.db"), { readOnly: true });
  const rows = database.prepare("SELECT detail FROM audit WHERE what = ? ORDER BY at").all(what);
  database.close();
  return rows.map(({ detail }) => String(detail));
}

test("A7: stopped with idle CLIs: exit code 0, empty slots, the journal's mark, and the next turn RESTORED", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  const other = t.host.createMember({ sandbox, cli: "kilo", ...MEMBER }).id;
  await play(t, member, "The code word is limpet.");
  await play(t, other, "The code word is whelk.");
  const container = containerOf(t, sandbox);
  const beganMs = performance.now();
  await t.host.stopSandbox(sandbox);
  expect(performance.now() - beganMs).toBeLessThan(20_000);
  expect((await present(container)).State).toMatchObject({ Running: false, ExitCode: 0 });
  const records = await journalOf(container);
  expect(records.at(-1)).toEqual({ t: "stopped" });
  // Everything was handed over before: nothing comes again.
  const events = records.filter((record) => record.t === "event").map(({ entry }) => entry);
  const ends = events.filter(({ event }) => event.type === "member.process" && event.state === "retired");
  expect(ends.map(({ event }) => event.member).sort()).toEqual([member, other].sort());
  expect(t.host.store.sandbox(sandbox)?.applied).toBe(events.at(-1)?.seq);
  expect(t.host.report().residents).toEqual([]);
  expect(auditOf(t, "sandbox.stopped")).toEqual(["exit code 0"]);
  expect(t.warnings).toEqual([]);
  for (const [one, word] of [
    [member, "limpet"],
    [other, "whelk"],
  ] as const) {
    const { settlement } = await play(t, one, "What is the code word?");
    expect(settlement).toMatchObject({ context: "RESTORED", parts: [`The code word is ${word}.`] });
  }
  expect(auditOf(t, "bridge.life")).toEqual([
    "life 1, the end of the one before: none",
    "life 2, the end of the one before: clean",
  ]);
});

test("A7: refused with a turn under way; with abort the turn has its verified end before the slot is emptied", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  await play(t, member, "The code word is conch.");
  t.model.script("Work on", [{ kind: "neverEnd", text: "working " }]);
  const turn = follow(t.host.submit(member, "Work on."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  const container = containerOf(t, sandbox);
  await expect(t.host.stopSandbox(sandbox)).rejects.toMatchObject({ code: "MEMBER_BUSY" });
  expect((await present(container)).State.Running).toBe(true);
  await t.host.stopSandbox(sandbox, { abort: true });
  expect(await turn.end()).toMatchObject({ outcome: "aborted", settled: true });
  expect((await present(container)).State).toMatchObject({ Running: false, ExitCode: 0 });
  expect((await journalOf(container)).at(-1)).toEqual({ t: "stopped" });
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is conch."] });
});

/** A container that was not made with a grace of its own gets 10 s by `docker stop`. */
const graceMs = ({ Config }: Inspected) => Number(Config.StopTimeout ?? 10) * 1000;

for (const native of ["a native turn that ends when it is asked", "a native process that heeds no SIGTERM"]) {
  const heeds = native.startsWith("a native turn");
  test(`P32, law 6: docker stop under a turn, with ${native}: the end is written, and the exit is in its grace and no kill`, async () => {
    const t = await startTestHost();
    tellOnFailure(t);
    const { sandbox, member } = createMember(t.host, "docker");
    await play(t, member, "The code word is conch.");
    const { locator } = t.host.member(member);
    t.model.script("Work on", [{ kind: "neverEnd", text: "working " }]);
    const turn = follow(t.host.submit(member, "Work on."));
    await until("some text", () => turn.seen().length > 20, 30_000);
    const container = containerOf(t, sandbox);
    // Stopped by a signal, it hears neither an abort nor SIGTERM.
    const cli = await processIn(container, (command) => command.startsWith("/opt/holdfast/clis/"));
    if (!heeds) process.kill(cli.pid, "SIGSTOP");
    const beganMs = performance.now();
    await stopByOperator(container);
    expect(performance.now() - beganMs).toBeLessThan(graceMs(await present(container)));
    expect((await present(container)).State).toMatchObject({ Running: false, ExitCode: 0 });
    expect((await journalOf(container)).at(-1)).toEqual({ t: "stopped" });
    const settlement = await turn.end();
    expect(settlement).toMatchObject({ outcome: "aborted", settled: heeds });
    const saved = t.host.member(member).locator;
    if (heeds) expect(saved).toMatchObject({ nativeId: locator?.nativeId, settledTurns: 2 });
    else expect(saved).toEqual(locator);
    const next = await play(t, member, "What is the code word?");
    expect(next.settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is conch."] });
    expect(containerOf(t, sandbox)).toBe(container);
  });
}

test("a CLI that ignores every polite end is ended by force, and the stop is clean all the same", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  const daemon =
    "exit if fork; POSIX::setsid(); exit if fork; $SIG{TERM} = $SIG{INT} = $SIG{HUP} = sub {}; sleep 1 while 1";
  const stubborn = `perl -MPOSIX -e '${daemon}' </dev/null >/dev/null 2>&1; echo ok`;
  const call = { name: "bash", arguments: { command: stubborn, description: "leave something" } };
  t.model.script("Leave something", [{ kind: "reply", toolCalls: [call] }, "Left."]);
  await play(t, member, "Leave something.");
  const container = containerOf(t, sandbox);
  await processIn(container, (command) => command.startsWith("perl "));
  await t.host.stopSandbox(sandbox);
  expect((await present(container)).State).toMatchObject({ Running: false, ExitCode: 0 });
  expect((await journalOf(container)).at(-1)).toEqual({ t: "stopped" });
});

test("a bridge that was killed leaves no mark, and its next life says so", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  await play(t, member, "The code word is dulse.");
  const container = containerOf(t, sandbox);
  process.kill((await present(container)).State.Pid, "SIGKILL");
  await until("its end", async () => !(await present(container)).State.Running);
  expect((await present(container)).State.ExitCode).toBe(137);
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is dulse."] });
  expect(auditOf(t, "bridge.life").at(-1)).toBe("life 2, the end of the one before: unclean");
});

test("P49: the image built anew during a turn waits for its settlement; with the build it was made by it goes on, nothing lost or doubled", async () => {
  const dist = await ownDist();
  const record = join(dist, "image-manifest.json");
  const [own, newer] = await Promise.all([
    readFile(record),
    readFile(join(await withBridge((bundle) => `${bundle}\n`), "image-manifest.json")),
  ]);
  const t = await startTestHost({ distDirectory: dist });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  const other = t.host.createMember({ sandbox, cli: "opencode", ...MEMBER }).id;
  await play(t, member, "The code word is cockle.");
  const container = containerOf(t, sandbox);
  const { State: before } = await present(container);
  // Nothing that the turn does meanwhile needs the controller, which is away for a moment.
  const wait = { name: "bash", arguments: { command: "sleep 8", description: "wait" } };
  t.model.script("Hold on", [{ kind: "reply", toolCalls: [wait] }, "Held."]);
  const turn = t.host.submit(member, "Hold on.", { id: "t-held" });
  turn.settlement.catch(() => undefined);
  await until(
    "the tool",
    () => t.host.store.eventsOf("t-held").some(({ event }) => event.type === "turn.tool"),
    30_000,
  );
  await writeFile(record, newer);
  const host = await t.reopen();
  const refused = await play(t, other, "The code word is periwinkle.");
  expect(refused.settlement).toMatchObject({ outcome: "not_sent", error: { code: "SANDBOX_OUTDATED" } });
  expect((await present(container)).State).toEqual(before);
  const settlement = await host.running("t-held")?.settlement;
  expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Held."] });
  const late = await play(t, member, "What is the code word?");
  expect(late.settlement).toMatchObject({ outcome: "not_sent", error: { code: "ATTESTATION_FAILED" } });
  expect((await present(container)).State).toMatchObject({ Running: false, ExitCode: 0 });

  await writeFile(record, own);
  t.model.reset();
  const { settlement: back } = await play(t, member, "What is the code word?");
  expect(back).toMatchObject({ context: "RESTORED", parts: ["The code word is cockle."] });
  expect(userTexts(t.model.mainRequests()[0])).toEqual([
    "The code word is cockle.",
    "Hold on.",
    "What is the code word?",
  ]);
  expect(await processesIn(container)).not.toEqual([]);
});
