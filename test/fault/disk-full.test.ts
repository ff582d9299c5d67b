/** A full disk on either side: records are old or new and never cut, the fault has its own name, and it goes with the room. */
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { canHaveEngine, startPrivateEngine } from "../support/private-engine.ts";
import { fillDisk, makeMemoryDisk } from "../support/small-disk.ts";
import { everySubject } from "../support/subjects.ts";
import { follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { type Place, placeOf } from "./place.ts";

const [SUBJECT] = everySubject();
if (SUBJECT === undefined) throw new Error("the list of CLIs is empty");
const WAITS = SUBJECT.tools.shell("until [ -e go ]; do sleep 0.05; done");
const asRoot = test.skipIf(!canHaveEngine);

function placeIn(t: TestHost, sandbox: string, socketPath: string): Place {
  return placeOf(socketPath, t.host.store.sandbox(sandbox)?.container?.containerId ?? "");
}

/** So that the next write needs room: a log that was written over again would not. */
function emptyLog(directory: string): void {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { timeout: 5000 });
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

asRoot(
  "P44, laws 3, 7: the store's disk full refuses a submission as such, and an end waits for room, once",
  async () => {
    const { folder: directory, remove } = await makeMemoryDisk("hfd-", 4);
    onTestFinished(remove);
    const t = await startTestHost({ storeDirectory: directory });
    tellOnFailure(t);
    const { sandbox, member } = createMember(t.host, "docker");
    await play(t, member, "The code word is sponge.");
    const before = t.host.member(member);
    t.model.reset();

    emptyLog(directory);
    const free = fillDisk(directory);
    expect(() => t.host.submit(member, "Is there room?")).toThrow(
      expect.objectContaining({ code: "DISK_FULL", message: "the store can't be written: the disk is full" }),
    );
    free();
    expect(t.host.member(member)).toEqual(before);
    expect(t.model.requests()).toEqual([]);

    t.model.script("Wait for it", [{ kind: "reply", text: "Waiting. ", toolCalls: [WAITS] }, "It came."]);
    const turn = follow(t.host.submit(member, "Wait for it."));
    await turn.heard("turn.tool");
    const place = placeIn(t, sandbox, engineSocket(process.env.DOCKER_HOST));
    emptyLog(directory);
    const freeAgain = fillDisk(directory);
    place.write("/workspace/go", "");
    const ended = new RegExp(`"type":"turn.ended","member":"[^"]+","turn":"${turn.handle.id}"`);
    await until("the end in the journal", () => ended.test(place.read("/var/lib/holdfast/journal")), 30_000);
    await until("its refusal", () => t.warnings.some((text) => /the disk is full/.test(text)), 30_000);
    expect(t.host.member(member).locator).toEqual(before.locator);
    freeAgain();
    expect(await turn.end()).toMatchObject({
      outcome: "completed",
      settled: true,
      parts: ["Waiting. ", "It came."],
    });
    expect(t.host.member(member)).toMatchObject({
      settled_turns: 2,
      locator: { settledTurns: 2, nativeId: before.locator?.nativeId },
    });
    const types = t.host.store.eventsOf(turn.handle.id).map(({ event }) => event.type);
    for (const type of ["turn.accepted", "turn.submitting", "turn.delivered"])
      expect(types.filter((each) => each === type)).toEqual([type]);
    const next = await play(t, member, "What is the code word?");
    expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is sponge."] });
  },
);

asRoot(
  "P44, laws 3, 7, 8: the sandbox's disk full ends what runs, is named, loops nowhere, and the conversation is proven again",
  async () => {
    const engine = await startPrivateEngine({
      clis: [SUBJECT.manifest.cli],
      recordText: readFileSync(new URL("../../dist/image-manifest.json", import.meta.url), "utf8"),
      sizeMiB: 900,
    });
    onTestFinished(engine.stop, 60_000);
    const t = await startTestHost({
      engineSocketPath: engine.socketPath,
      distDirectory: engine.distDirectory,
    });
    tellOnFailure(t);
    const { sandbox, member } = createMember(t.host, "docker");
    await play(t, member, "The code word is sponge.");
    const { locator } = t.host.member(member);
    t.model.script("Wait for it", [{ kind: "reply", text: "Waiting. ", toolCalls: [WAITS] }, "It came."]);
    const turn = follow(t.host.submit(member, "Wait for it."));
    await turn.heard("turn.tool");
    const place = placeIn(t, sandbox, engine.socketPath);
    const free = engine.fill();
    place.write("/workspace/go", "");
    const settlement = await turn.end();
    expect(settlement).toMatchObject({
      settled: false,
      outcome: expect.stringMatching(/^(unknown|failed)$/),
    });
    expect(t.host.member(member)).toMatchObject({ locator, settled_turns: 1 });

    if (settlement.outcome === "unknown") t.host.recordInspection(turn.handle.id, "the disk was full");
    t.model.reset();
    // A start needs room for certain; a few bytes may fit into a block that is there.
    await t.host.stopSandbox(sandbox);
    const freeAll = [free, engine.fill()];
    const full = await play(t, member, "What is the code word?");
    expect(full.settlement).toMatchObject({
      outcome: "not_sent",
      settled: false,
      error: { code: "DISK_FULL" },
    });
    expect(t.model.requests()).toEqual([]);

    for (const give of freeAll) give();
    const next = await play(t, member, "What is the code word?");
    expect(next.settlement).toMatchObject({
      outcome: "completed",
      context: "RESTORED",
      parts: ["The code word is sponge."],
    });
  },
);
