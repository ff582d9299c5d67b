/** Faults that codex does not play on demand, played by its stand-in under the whole stack. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { listSlot } from "../../bridge/census.ts";
import type { Script } from "../stand-ins/codex/script.ts";
import { startTestHost } from "../support/host.ts";
import { standIn } from "../support/stand-in.ts";
import { follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { CODEX_MEMBER } from "./suite/codex-subject.ts";
import { slotIsEmpty, slotOf } from "./suite/processes.ts";
import { abortOf } from "./suite/subject.ts";

async function staged(script: Script) {
  const folder = mkdtempSync("/tmp/hf-codex-");
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(`${folder}/script`, JSON.stringify(script));
  const t = await startTestHost({
    commands: { codex: standIn("codex/main.ts", `${folder}/script`) },
    limits: { abortMs: 1500 },
  });
  tellOnFailure(t);
  const sandbox = t.host.createSandbox({ kind: "process" }).id;
  const member = () => t.host.createMember({ sandbox, cli: "codex", ...CODEX_MEMBER }).id;
  return { t, sandbox, member };
}

test("P18: a codex that refuses every interrupt is ended with all its processes; the turn is aborted and not settled", async () => {
  const { t, sandbox, member } = await staged({
    prompts: [{ steps: [{ say: "On and on." }] }],
    refuse: {
      "turn/interrupt": ["expected active turn id TURN but found 01a22ce0-1111-7000-8000-00000000000f"],
    },
  });
  const id = member();
  const turn = follow(t.host.submit(id, "Go on."));
  await until("its text", () => turn.seen() === "On and on.", 30_000);
  const settlement = await abortOf(turn);
  expect(settlement).toMatchObject({ outcome: "aborted", settled: false, keepsProcess: false });
  expect(settlement.evidence.map(({ what }) => what)).toContain("process_ended");
  await slotIsEmpty(sandbox, id);
  // Nothing has settled: the next turn is a first one.
  const next = follow(t.host.submit(id, "And now?"));
  await until("its text", () => next.seen() === "On and on.", 30_000);
  await abortOf(next);
});

test("P18: an interrupt with an outdated id is tried again with the one that codex names; aborted is said behind codex's own end", async () => {
  const other = "01a22ce0-1111-7000-8000-00000000000f";
  const { t, member } = await staged({
    prompts: [{ steps: [{ say: "On." }] }, {}],
    refuse: { "turn/interrupt": [`expected active turn id TURN but found ${other}`, null] },
    interrupted: [{ end: "interrupted", turn: other }],
  });
  const id = member();
  const turn = follow(t.host.submit(id, "Go on."));
  await until("its text", () => turn.seen() === "On.", 30_000);
  expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
  expect((await play(t, id, "Next.")).settlement).toMatchObject({
    outcome: "completed",
    context: "LIVE",
    parts: ["Played."],
  });
});

test("P29: a codex that ends in a turn fails it with its exit code, and another member goes on", async () => {
  const { t, sandbox, member } = await staged({
    hasOwnThread: true,
    prompts: [{ steps: [{ until: "turn/start" }, { exit: 7 }] }],
  });
  const [first, second] = [member(), member()];
  const { settlement } = await play(t, first, "x".repeat(200_000));
  expect(settlement).toMatchObject({
    settled: false,
    keepsProcess: false,
    error: { code: "CLI_EXITED", message: expect.stringContaining("code 7") },
  });
  await slotIsEmpty(sandbox, first);
  const other = await play(t, second, "Hello.");
  expect(other.settlement.error).toMatchObject({ code: "CLI_EXITED" });
  expect(await listSlot(slotOf(sandbox, second))).toEqual([]);
});
