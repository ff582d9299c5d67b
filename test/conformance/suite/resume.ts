/** Law 8: RESTORED is proven before the prompt; what can't be proven is LOST, and nothing is sent. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, expect, test } from "vitest";
import type { Locator } from "../../../protocol/locator.ts";
import { play } from "../../support/turns.ts";
import { processesOf } from "./processes.ts";
import { type DriverSubject, fileIn, type Stage, settled, spoken } from "./subject.ts";

export function resumeTests(stage: () => Stage, { tools, processText }: DriverSubject): void {
  /** Undoes what a test did to the store. */
  const undo: Array<() => void> = [];
  afterEach(() => {
    for (const step of undo.splice(0)) step();
  });

  /** Puts a locator into the store that no settlement has made. */
  function tamper(member: string, locator: Locator | null): void {
    const { locator: before } = stage().t.host.member(member);
    const put = (value: Locator | null) => {
      const database = new DatabaseSync(`${stage().t.directory}/holdfast.db`, { timeout: 5000 });
      const text = value === null ? null : JSON.stringify(value);
      database.prepare("UPDATE members SET locator = ? WHERE id = ?").run(text, member);
      database.close();
    };
    put(locator);
    undo.push(() => put(before));
  }

  test("A5, A7, B3: stopped and started, a member is RESTORED, recalls from what the model receives, its files intact", async () => {
    const own = stage().apart();
    const { t, fresh, sandbox } = own;
    const member = fresh();
    t.model.script("Write a file", [
      { kind: "reply", toolCalls: [tools.shell("printf kept > kept.txt")] },
      "Written.",
    ]);
    await play(t, member, "The code word is anemone.");
    await play(t, member, "Write a file.");
    const { locator } = t.host.member(member);
    await t.host.stopSandbox(sandbox);
    t.model.reset();
    const turn = await play(t, member, "What is the code word?");
    expect(turn.settlement).toMatchObject({
      outcome: "completed",
      context: "RESTORED",
      contextReason: "no process is resident",
      parts: ["The code word is anemone."],
    });
    expect(turn.settlement.session?.nativeId).toBe(locator?.nativeId);
    const rows = t.model.mainRequests()[0]?.request?.rows ?? [];
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual([
      "The code word is anemone.",
      "Write a file.",
      "What is the code word?",
    ]);
    expect(rows.filter(({ role }) => role === "assistant").map(({ text }) => text)).toEqual([
      "Noted: anemone.",
      "",
      "Written.",
    ]);
    expect(fileIn(own, "kept.txt")).toBe("kept");
    expect(t.host.member(member).locator?.settledTurns).toBe(3);
  });

  test("law 2, A2: nothing but the CLI's own run changes its files: not a stop, a start, an attestation or a refused turn", async () => {
    const own = stage().apart();
    const { t, fresh, sandbox } = own;
    const member = await settled(own, fresh());
    await t.host.stopSandbox(sandbox);
    const root = `${t.host.store.sandbox(sandbox)?.directory}/slots/${member}`;
    const before = digests(root);
    expect(Object.keys(before).length).toBeGreaterThan(0);
    // Nor has the CLI fetched packages of its own.
    expect(Object.keys(before).filter((path) => path.includes("/node_modules/"))).toEqual([]);
    await t.host.startSandbox(sandbox);
    tamper(member, null);
    expect((await play(t, member, "Refused.")).settlement).toMatchObject({
      outcome: "refused",
      context: "LOST",
    });
    await t.host.stopSandbox(sandbox);
    await t.reopen();
    expect(digests(root)).toEqual(before);
    expect(t.model.requests()).toEqual([]);
  });

  test("laws 2, 8; A6, A9: without its native state a member is LOST: no earlier text is in any request, and none is made", async () => {
    const own = stage().apart();
    const { t, fresh, sandbox, directory } = own;
    const member = fresh();
    await play(t, member, "The code word is anemone.");
    await play(t, member, "And a second message.");
    const { locator } = t.host.member(member);
    await t.host.stopSandbox(sandbox);
    rmSync(`${directory}/slots/${member}`, { recursive: true });
    t.model.reset();
    for (let times = 0; times < 2; times += 1) {
      const { settlement } = await play(t, member, "What is the code word?");
      expect(settlement).toMatchObject({
        outcome: "refused",
        settled: false,
        context: "LOST",
        error: { code: "CONTEXT_LOST" },
        parts: [],
      });
    }
    expect(t.model.requests()).toEqual([]);
    expect(t.host.member(member).locator).toEqual(locator);
    // The place is fine: another member begins there, with its own words alone.
    await play(t, fresh(), "Is anybody there?");
    expect(spoken(own, t.model.mainRequests()[0])).toEqual(["Is anybody there?"]);
    expect(JSON.stringify(t.model.requests())).not.toContain("anemone");
  });

  test("law 8, A6, B5: without its locator, another container's, another id's or another history's, a member is LOST", async () => {
    const own = stage().apart();
    const { t, fresh, sandbox } = own;
    const member = await settled(own, fresh());
    const { locator } = t.host.member(member);
    if (locator === null || locator.tail === null) throw new Error("no locator with a tail");
    const strange: Record<string, Locator | null> = {
      "a retained member has no locator": null,
      "containerId differs": { ...locator, container: { ...locator.container, containerId: "another" } },
      "generation differs": { ...locator, container: { ...locator.container, generation: 2 } },
      "the locator counts 7 settled turns": { ...locator, settledTurns: 7 },
    };
    // Without a locator it is refused although its process lives; being refused, that is retired.
    expect((await processesOf(sandbox, member, processText)).length).toBeGreaterThan(0);
    for (const [reason, value] of Object.entries(strange)) await isLost(reason, value);
    // From here on a process would have to resume it.
    await t.host.stopSandbox(sandbox);
    await isLost("the history lacks the last settled turn", {
      ...locator,
      tail: { ...locator.tail, id: `${locator.tail.id.slice(0, -3)}xyz` },
    });
    await isLost("no session with the saved id", {
      ...locator,
      nativeId: `${locator.nativeId.slice(0, -3)}xyz`,
    });
    expect(t.model.requests()).toEqual([]);
    tamper(member, locator);
    const found = await play(t, member, "Found again?");
    expect(found.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual([
      "Say something before the test begins.",
      "Found again?",
    ]);

    async function isLost(reason: string, value: Locator | null): Promise<void> {
      tamper(member, value);
      const { settlement } = await play(t, member, "Are you the one?");
      expect(settlement).toMatchObject({
        outcome: "refused",
        settled: false,
        context: "LOST",
        error: { code: "CONTEXT_LOST" },
      });
      expect(settlement.contextReason).toContain(reason);
    }
  });
}

/** Every plain file below the folder, with its digest. */
function digests(root: string): Record<string, string> {
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      return [path, createHash("sha256").update(readFileSync(path)).digest("hex")];
    }),
  );
}
