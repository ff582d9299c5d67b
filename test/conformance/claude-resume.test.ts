/** What Claude Code's history is worth behind a hard end: the real CLI in both pinned versions, driven without a host around it. */
import { appendFileSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { listSlot } from "../../bridge/census.ts";
import { transcriptPath } from "../../bridge/drivers/claude/history.ts";
import type { Resident } from "../../bridge/drivers/driver.ts";
import type { TailReference } from "../../protocol/locator.ts";
import { createRig, locatorOf, playOn, type Rig, submit } from "../bridge/drivers/claude/rig.ts";
import { ownTexts } from "../support/model/additions.ts";
import { type ModelServer, startModelServer } from "../support/model/server.ts";
import { until } from "../support/until.ts";
import { CLAUDE_VERSIONS, type ClaudeVersion, claudeCommand } from "./suite/claude-subject.ts";

async function open(version: ClaudeVersion): Promise<{ model: ModelServer; rig: Rig }> {
  const model = await startModelServer();
  onTestFinished(() => model.close());
  const command = claudeCommand(version);
  return { model, rig: await createRig({ command, version, modelUrl: new URL(model.url).origin }) };
}

const said = (model: ModelServer) =>
  (model.mainRequests().at(-1)?.request?.rows ?? []).flatMap((row) =>
    row.role === "user" ? ownTexts(row).map((text) => text.replace(/\n$/, "")) : [],
  );

/** Ends the CLI hard, and waits until that was seen. */
async function killCli(rig: Rig): Promise<void> {
  const exits = rig.exits.length;
  for (const { pid } of await listSlot(rig.slot.mark)) process.kill(pid, "SIGKILL");
  await until("the exit", () => rig.exits.length > exits);
}

async function resumed(rig: Rig, from: Resident, tail: TailReference | null): Promise<Resident> {
  const result = await rig.resume(locatorOf(from, tail));
  if (result.kind !== "resumed") throw new Error(`not resumed: ${JSON.stringify(result)}`);
  return result.resident;
}

for (const version of CLAUDE_VERSIONS) {
  test(`D6, ${version}: killed while it streams, it is restored without a call of the model that nobody asked for`, async () => {
    const { model, rig } = await open(version);
    const first = await rig.launch();
    const { tail } = await playOn(rig, first, "Before it.");
    model.script("Stream on", [{ kind: "neverEnd", text: "on and " }]);
    await submit(first, "Stream on.");
    await rig.seen("text");
    // The user's row is written a while behind the request (facts 1.9).
    const path = transcriptPath(rig.slot.home, rig.slot.workspace, first.nativeId);
    const rows = () => (existsSync(path) ? readFileSync(path, "utf8") : "");
    await until("the user's row", () => rows().includes("Stream on."));
    await killCli(rig);
    const before = model.requests().length;
    const second = await resumed(rig, first, tail);
    await second.gate();
    expect(model.requests()).toHaveLength(before);
    await playOn(rig, second, "Behind it.");
    expect(model.requests()).toHaveLength(before + 1);
    expect(said(model).filter((text) => text === "Behind it.")).toHaveLength(1);
    expect(said(model)[0]).toBe("Before it.");
    await second.stop();
  });

  test(`law 8, ${version}: killed right at its result, the proof of the tail decides: with the reply it is resumed, without it LOST`, async () => {
    const { model, rig } = await open(version);
    const first = await rig.launch();
    const { tail: earlier } = await playOn(rig, first, "One.");
    // Rows are written a while behind the result (facts 1.9): the first turn is to be in the history, the second may.
    const path = transcriptPath(rig.slot.home, rig.slot.workspace, first.nativeId);
    const rows = () => (existsSync(path) ? readFileSync(path, "utf8") : "");
    await until("the first turn's reply in the transcript", () => rows().includes(`"uuid":"${earlier?.id}"`));
    await submit(first, "Two.");
    const { tail } = await rig.seen("native_end", (end) => end.tail?.id !== earlier?.id);
    await killCli(rig);
    const result = await rig.resume(locatorOf(first, tail));
    if (result.kind === "resumed") {
      await playOn(rig, result.resident, "Three.");
      expect(
        model
          .mainRequests()
          .at(-1)
          ?.request?.rows.filter(({ role }) => role === "assistant"),
      ).toHaveLength(2);
      await result.resident.stop();
    } else {
      expect(result).toMatchObject({
        resume: { kind: "lost", reason: "the history lacks the last settled turn" },
      });
    }
    // A turn of which nothing was settled leaves the earlier one as it was.
    const kept = await resumed(rig, first, earlier);
    expect(kept.nativeId).toBe(first.nativeId);
    await kept.stop();
  });

  test(`P23, ${version}: a cut last record, zeros and two joined ones are LOST where they held the tail, and else resumed; no crash`, async () => {
    const { model, rig } = await open(version);
    const first = await rig.launch();
    const { tail } = await playOn(rig, first, "The code word is kelp.");
    await first.stop();
    const path = transcriptPath(rig.slot.home, rig.slot.workspace, first.nativeId);
    const whole = readFileSync(path, "utf8");
    const rowAt = whole.lastIndexOf("\n", whole.indexOf(`"uuid":"${tail?.id}"`)) + 1;
    const lost = { kind: "not_resumed", resume: { kind: "lost" } };

    truncateSync(path, rowAt + 20);
    expect(await rig.resume(locatorOf(first, tail)), "cut in the tail's row").toMatchObject(lost);
    writeFileSync(path, `${whole.slice(0, rowAt)}{"type":"user","uuid":"x${whole.slice(rowAt)}`);
    expect(await rig.resume(locatorOf(first, tail)), "the tail's row joined to another").toMatchObject(lost);
    writeFileSync(path, `${whole.slice(0, rowAt)}${"\0".repeat(whole.length - rowAt)}`);
    expect(await rig.resume(locatorOf(first, tail)), "a block of zeros over the tail's row").toMatchObject(
      lost,
    );
    writeFileSync(path, "\0".repeat(whole.length));
    expect(await rig.resume(locatorOf(first, tail)), "nothing but zeros").toMatchObject(lost);
    writeFileSync(path, "");
    expect(await rig.resume(locatorOf(first, tail)), "blank").toMatchObject(lost);

    writeFileSync(path, whole);
    appendFileSync(path, '{"type":"assistant","uuid":"torn","parentUu');
    const second = await resumed(rig, first, tail);
    await playOn(rig, second, "Do you recall?");
    expect(said(model)).toEqual(["The code word is kelp.", "Do you recall?"]);
    await second.stop();
  });

  test(`P23, ${version}: a record that was cut in the middle of the history is told, and not resumed without it`, async () => {
    const { rig } = await open(version);
    const first = await rig.launch();
    for (const text of ["One.", "Two."]) await playOn(rig, first, text);
    const { tail } = await playOn(rig, first, "Three.");
    await first.stop();
    const path = transcriptPath(rig.slot.home, rig.slot.workspace, first.nativeId);
    const rows = readFileSync(path, "utf8").split("\n");
    const at = rows.findIndex((each) => each.includes('"parentUuid"') && each.includes("Two."));
    writeFileSync(
      path,
      rows
        .with(at, `${rows[at]?.slice(0, 60)}${rows[at + 1]}`)
        .toSpliced(at + 1, 1)
        .join("\n"),
    );
    expect(await rig.resume(locatorOf(first, tail))).toMatchObject({
      kind: "not_resumed",
      resume: { kind: "lost", reason: expect.stringContaining("lacks a part") },
    });
  });

  test(`P21, ${version}: a session is found from its own directory only: from another one it is LOST`, async () => {
    const { rig } = await open(version);
    const first = await rig.launch();
    const { tail } = await playOn(rig, first, "Here.");
    await first.stop();
    const moved = { ...rig.slot, workspace: rig.slot.home };
    const locator = locatorOf(first, tail);
    expect(await rig.resume(locator, { slot: moved })).toMatchObject({
      resume: {
        kind: "lost",
        reason: expect.stringContaining(`belongs to the directory ${first.directory}`),
      },
    });
    // Were it not refused before: the older version finds none, the newer one does, and its history is elsewhere.
    expect(await rig.resume({ ...locator, directory: moved.workspace }, { slot: moved })).toMatchObject({
      resume: { kind: "lost" },
    });
    await (await resumed(rig, first, tail)).stop();
  });

  test(`facts 1.5, ${version}: the uuid that we give a message is its row's, so that one sent twice would be run once`, async () => {
    const { model, rig } = await open(version);
    const resident = await rig.launch();
    const message = await submit(resident, "Once.");
    await rig.seen("native_end");
    resident.endTurn();
    await resident.submit({ text: "Once.", nativeMessage: message });
    await rig.seen("own_event");
    await resident.gate();
    expect(model.requests()).toHaveLength(1);
    const path = transcriptPath(rig.slot.home, rig.slot.workspace, resident.nativeId);
    await resident.stop();
    expect(readFileSync(path, "utf8").split(`"uuid":"${message}"`)).toHaveLength(2);
  });
}
