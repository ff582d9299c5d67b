/** The bridge dies between the intent to submit and the CLI's answer: the CLI's own history says whether it took the text. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createMember, startTestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";

const HOLDER = fileURLToPath(new URL("prompt-holder.ts", import.meta.url));
const BUNDLE = JSON.parse(readFileSync(new URL("../../dist/bundle.json", import.meta.url), "utf8")) as {
  clis: Array<{ cli: string; command: string[] }>;
};
const OPENCODE = BUNDLE.clis.find(({ cli }) => cli === "opencode")?.command[0] ?? "";

/** A turn whose bridge is killed while its prompt is on the way, and what becomes of it. */
async function killedUnderway(mode: "held" | "swallowed") {
  const t = await startTestHost({
    commands: { opencode: [process.execPath, HOLDER, mode, OPENCODE] },
    limits: { requestMs: 60_000 },
  });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "process");
  const turn = follow(t.host.submit(member, "The code word is winkle."));
  await turn.heard("turn.submitting");
  if (mode === "swallowed") await t.model.waitForRequest(() => true, 30_000);
  const directory = t.host.store.sandbox(sandbox)?.directory ?? "";
  const { pid } = JSON.parse(readFileSync(`${directory}/process.json`, "utf8")) as { pid: number };
  process.kill(pid, "SIGKILL");
  return { t, member, turn, settlement: await turn.end() };
}

test("section 4: a prompt that the CLI never stored is not_sent, and the same text may be submitted again", async () => {
  const { t, member, settlement } = await killedUnderway("held");
  expect(settlement).toMatchObject({ outcome: "not_sent", settled: false });
  expect(settlement.evidence[0]).toMatchObject({ what: "message_absent", source: "history" });
  expect(t.model.requests()).toEqual([]);
  expect(await t.host.nextContext(member)).toMatchObject({ status: "NEW", blocked: null });
});

test("section 4: one that the CLI has stored is unknown: it may have run, and is not sent again", async () => {
  const { t, member, turn, settlement } = await killedUnderway("swallowed");
  expect(settlement).toMatchObject({ outcome: "unknown", settled: false });
  expect(settlement.evidence[0]).toMatchObject({ what: "message_present", source: "history" });
  expect(t.host.inspect(turn.handle.id)).toMatchObject({ reach: "submitting", needsNote: true });
  const asked = t.model.mainRequests().filter((r) => userTexts(r).includes("The code word is winkle."));
  expect(asked).toHaveLength(1);
  await expect(play(t, member, "And now?")).rejects.toMatchObject({ code: "INSPECTION_NEEDED" });
});
