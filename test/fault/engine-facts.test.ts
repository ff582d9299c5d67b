/** What happens to a container beside the crashes of the matrix: removed behind our back, out of memory. */
import { expect, test } from "vitest";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import { recreate } from "../container/engine.ts";
import { tampering } from "../container/variants.ts";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { everySubject } from "../support/subjects.ts";
import { follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { type Place, placeOf } from "./place.ts";

const [SUBJECT] = everySubject();
if (SUBJECT === undefined) throw new Error("the list of CLIs is empty");
const { tools, processText } = SUBJECT;

/** A bounded time for an end that no process can report: the look at the place comes within a second or two. */
const SOON_MS = 10_000;

function placeIn(t: TestHost, sandbox: string): Place {
  const { containerId } = t.host.store.sandbox(sandbox)?.container ?? {};
  return placeOf(engineSocket(process.env.DOCKER_HOST), containerId ?? "");
}

test("P37, laws 8, 11: a container removed under a turn ends it soon, is LOST afterwards, and can be stopped and removed again and again", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  await play(t, member, "The code word is whelk.");
  const { locator } = t.host.member(member);
  t.model.script("Work on", [{ kind: "neverEnd", text: "working " }]);
  const turn = follow(t.host.submit(member, "Work on."));
  await until("some text", () => turn.seen().length > 20, 30_000);
  await placeIn(t, sandbox).remove();
  const removedMs = performance.now();
  expect(await turn.end()).toMatchObject({
    outcome: "unknown",
    settled: false,
    error: { code: "DELIVERY_UNKNOWN" },
    evidence: [expect.objectContaining({ what: "sandbox_gone", source: "host" })],
  });
  expect(performance.now() - removedMs).toBeLessThan(SOON_MS);
  expect(t.host.member(member).locator).toEqual(locator);

  t.host.recordInspection(turn.handle.id, "the container is gone");
  t.model.reset();
  const { settlement } = await play(t, member, "What is the code word?");
  expect(settlement).toMatchObject({ outcome: "refused", context: "LOST", error: { code: "CONTEXT_LOST" } });
  expect(t.model.requests()).toEqual([]);
  for (let times = 0; times < 2; times += 1) await t.host.stopSandbox(sandbox);
  for (let times = 0; times < 2; times += 1) await t.host.removeSandbox(sandbox);
  expect(t.host.turn(turn.handle.id).settlement).toMatchObject({ outcome: "unknown" });
});

test("design 7: memory that runs out is noted with the turn, and only the end of the CLI's own process decides", async () => {
  const memory = { Memory: 1200 * 1024 ** 2, MemorySwap: 1200 * 1024 ** 2 };
  const t = await startTestHost({
    around: (drivers) =>
      tampering(drivers, { creates: 0, starts: 0 }, (id) =>
        recreate(id, ({ HostConfig }) => ({ HostConfig: { ...HostConfig, ...memory } })),
      ),
  });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  await play(t, member, "The code word is dulse.");
  const place = placeIn(t, sandbox);
  const isCli = ({ uid, command }: { uid: number; command: string }) =>
    uid !== 0 && command.includes(processText);
  const before = place.find(isCli);
  const eats = tools.shell(`perl -e '$x = "x" x (2000 << 20)'; echo "ended $?"`);
  t.model.script("Eat it", [{ kind: "reply", toolCalls: [eats] }, "Eaten."]);
  const child = await play(t, member, "Eat it.");
  expect(child.settlement).toMatchObject({ outcome: "completed", settled: true, keepsProcess: true });
  expect(child.settlement.evidence).toContainEqual(
    expect.objectContaining({ what: "out_of_memory", source: "process" }),
  );
  expect(place.find(isCli)).toEqual(before);
  const next = await play(t, member, "What is the code word?");
  expect(next.settlement).toMatchObject({ context: "LIVE", parts: ["The code word is dulse."] });
  expect(next.settlement.evidence.map(({ what }) => what)).not.toContain("out_of_memory");
});
