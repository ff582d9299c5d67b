/**
 * A bridge is killed while it forks a member, once amid the copying and once while the CLI forks: the caller hears of it,
 * the fork stays prepared, its key goes on with the same member, and neither history shows that anything had happened.
 */
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { isBridge, type Place, type PlaceProcess, placeOf } from "../fault/place.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { engineSocketPath } from "./engine.ts";

/** Enough that its copying is seen. */
const BULK = "head -c 150000000 /dev/zero > $HOME/../data/opencode/bulk";

/** Of the slots; the bridge's own lies below. */
const FIRST_UID = 20_001;

let t: TestHost;
beforeEach(async () => {
  t = await startTestHost({ atEnd: onTestFinished });
  tellOnFailure(t);
}, 60_000);

const POINTS: Array<[string, (process: PlaceProcess) => boolean]> = [
  ["the history is copied", ({ command }) => command.startsWith("tar --extract")],
  ["its CLI forks the copy", ({ command }) => /opencode.* serve/.test(command)],
];

test.each(POINTS)("a bridge that dies while %s", async (_point, isAtWork) => {
  const sandbox = t.host.createSandbox({ kind: "docker" }).id;
  const parent = t.host.createMember({ sandbox, cli: "opencode", ...MEMBER }).id;
  t.model.script("The code word is limpet.", [
    { kind: "reply", toolCalls: [{ name: "bash", arguments: { command: BULK, description: "bulk" } }] },
    "Kept.",
  ]);
  await play(t, parent, "The code word is limpet.");
  const before = t.host.member(parent);
  const place = placeOf(engineSocketPath, t.host.store.sandbox(sandbox)?.container?.containerId ?? "");
  const parents = ownersOf(place);
  expect(parents).toHaveLength(1);

  const request = { from: parent, key: "the-fork", id: "child" };
  const forking = t.host.forkMember(request).then(
    () => "made",
    (error: unknown) => (error as { code?: string }).code,
  );
  await until("the fork at its point", () =>
    place.find((process) => isAtWork(process) && process.uid >= FIRST_UID && !parents.includes(process.uid)),
  );
  expect(t.host.store.forkOf("child")).toMatchObject({ state: "prepared" });
  process.kill(place.find(isBridge)?.pid ?? 0, "SIGKILL");
  expect(await forking).toBe("LINK_CLOSED");
  await until("a container at its end", async () => !(await place.isRunning()));
  expect(place.processes()).toEqual([]);
  expect(t.host.member(parent)).toEqual(before);
  expect(t.host.store.forkOf("child")).toMatchObject({ state: "prepared", session: null });

  expect(await t.host.forkMember(request)).toMatchObject({ member: "child", parent, state: "ready" });
  const first = await play(t, "child", "What is the code word? I am the fork.");
  expect(first.settlement).toMatchObject({ outcome: "completed", parts: ["The code word is limpet."] });
  expect(userTexts(t.model.mainRequests().at(-1))).toEqual([
    "The code word is limpet.",
    "What is the code word? I am the fork.",
  ]);
  const next = await play(t, parent, "What is the code word? I am the parent.");
  expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
  expect(userTexts(t.model.mainRequests().at(-1))).toEqual([
    "The code word is limpet.",
    "What is the code word? I am the parent.",
  ]);
  expect(t.host.member(parent).locator?.nativeId).toBe(before.locator?.nativeId);
});

/** Users of the CLIs that run. */
function ownersOf(place: Place): number[] {
  return [
    ...new Set(
      place
        .processes()
        .filter(({ uid }) => uid >= FIRST_UID)
        .map(({ uid }) => uid),
    ),
  ];
}
