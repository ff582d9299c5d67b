/** What takes minutes on the real CLIs: their own ladders of retries, and silences that no client's default may end. */
import { describe, expect, test } from "vitest";
import { away } from "../conformance/suite/limits.ts";
import { eventsOf } from "../conformance/suite/processes.ts";
import { KILO_SUBJECT, OPENCODE_SUBJECT } from "../conformance/suite/served.ts";
import { type DriverSubject, openStage, settled } from "../conformance/suite/subject.ts";
import { type Followed, follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";

const MINUTE_MS = 60_000;
const SILENCE_MS = 12_000;

for (const subject of [OPENCODE_SUBJECT, KILO_SUBJECT]) {
  describe(subject.manifest.cli, () => longWaits(subject));
}

function longWaits(subject: DriverSubject): void {
  const stage = openStage(subject, { limits: { silenceMs: SILENCE_MS } });

  /** As `end` of a followed turn, with more patience. */
  async function endOf(turn: Followed, limitMs: number) {
    const { id } = turn.handle;
    await until("the end", () => stage().t.host.turn(id).settlement !== null, limitMs);
    return stage().t.host.turn(id).settlement;
  }

  test("facts 4: a provider that fails for ever is tried again by the CLI until it gives up: the turn fails, settled", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Fail for ever", [{ kind: "status", status: 500 }]);
    const turn = follow(t.host.submit(member, "Fail for ever."));
    expect(await endOf(turn, 3 * MINUTE_MS)).toMatchObject({
      outcome: "failed",
      settled: true,
      error: { code: "NATIVE_FAILED" },
      keepsProcess: true,
    });
    expect(turn.all("turn.waiting").length).toBeGreaterThanOrEqual(4);
    t.model.reset();
    expect((await play(t, member, "Better now?")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
  });

  test("facts 4.1: a provider that stays out of reach ends the turn after a bounded number of tries", async () => {
    const { t, steady, directory } = stage();
    const member = await settled(stage(), steady());
    const id = await away(
      stage(),
      member,
      subject.tools.shell,
      "stay away",
      (turn) => eventsOf(directory).some((event) => event.type === "turn.ended" && event.turn === turn),
      4 * MINUTE_MS,
    );
    await until("the end", () => t.host.turn(id).settlement !== null, MINUTE_MS);
    expect(t.host.turn(id).settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      error: { code: "NATIVE_FAILED" },
    });
    t.model.reset();
    expect((await play(t, member, "Back again.")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
  });

  test("P4: a turn with nothing but heartbeats for three times the limit of silence goes on", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Think", [{ kind: "reply", text: "Thought.", beforeFirstByteMs: 3 * SILENCE_MS }]);
    const turn = follow(t.host.submit(member, "Think."));
    expect(await endOf(turn, 2 * MINUTE_MS)).toMatchObject({ outcome: "completed", parts: ["Thought."] });
  });

  // The model's own silence has a limit of the CLI's: after 300 s without a header it is asked again.
  test("P5: a turn in which nothing happens for 310 s, past the 300 s of Node's own clients, completes", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    const { name, arguments: given } = subject.tools.shell("sleep 310");
    t.model.script("Sleep on", [
      { kind: "reply", toolCalls: [{ name, arguments: { ...given, timeout: 7 * MINUTE_MS } }] },
      "Slept.",
    ]);
    const turn = follow(t.host.submit(member, "Sleep on."));
    const settlement = await endOf(turn, 7 * MINUTE_MS);
    expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Slept."] });
    expect(settlement?.timings.settleMs).toBeGreaterThan(310_000);
  });
}
