/** Waits that nobody ends: each has a limit of its own, here a short one, and the turn says which it was. */
import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { follow, play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { eventsOf } from "./processes.ts";
import { type DriverSubject, putSettings, required, type Stage, settled } from "./subject.ts";

export function limitTests(
  stage: () => Stage,
  { manifest, tools, server, longWait, tellsNextTry, quotaText }: DriverSubject,
  requestMs: number,
): void {
  test("P19: a provider that asks for a day's wait is shown as waiting, and at the limit the turn fails with its message", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Wait a day", [
      {
        kind: "status",
        status: 429,
        headers: { "retry-after": "86400" },
        body: { error: { message: "the quota is spent" } },
      },
    ]);
    const turn = await play(t, member, "Wait a day.");
    if (longWait === "gives up") {
      expect(turn.settlement).toMatchObject({ outcome: "failed", settled: true, keepsProcess: true });
      expect(turn.settlement.error).toMatchObject({ code: "NATIVE_FAILED" });
      expect(turn.settlement.error?.message).toContain(quotaText);
      expect(t.model.mainRequests()).toHaveLength(1);
      return;
    }
    expect(turn.all("turn.waiting")[0]).toMatchObject({
      attempt: 1,
      nextAt: tellsNextTry ? expect.any(Number) : null,
    });
    expect(turn.settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      error: { code: "PROVIDER_WAIT_LIMIT" },
      keepsProcess: true,
    });
    expect(turn.settlement.error?.message).toContain(quotaText);
    if (longWait === "heeds") expect(t.model.mainRequests()).toHaveLength(1);
    t.model.reset();
    expect((await play(t, member, "The next day.")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
  });

  test.skipIf(server === null)(
    "P16: an agent that does not exist gets a 204 and no idle; the turn ends in bounded time, and is no success",
    async () => {
      const { t, fresh, sandbox } = stage();
      const member = fresh();
      putSettings(t, sandbox, member, required(server), { default_agent: "nobody" });
      const { settlement } = await play(t, member, "Is anybody there?");
      expect(settlement).toMatchObject({
        outcome: "failed",
        settled: false,
        error: { code: "NATIVE_FAILED", message: expect.stringContaining("nobody") },
        keepsProcess: false,
      });
      expect(t.model.requests()).toEqual([]);
    },
  );

  test("P5: an answer that is silent for longer than any request of ours may be fails nothing", async () => {
    const { t, steady } = stage();
    t.model.script("Think long", [{ kind: "reply", text: "Thought.", beforeFirstByteMs: requestMs + 1000 }]);
    const { settlement } = await play(t, steady(), "Think long.");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Thought."] });
    expect(settlement.timings.settleMs).toBeGreaterThan(requestMs);
  });

  test.skipIf(!manifest.asksQuestions || tools.question === null)(
    "P14: a question while the controller is away is held for its limit, rejected natively, and named in the settlement",
    async () => {
      const { t, steady, directory } = stage();
      const member = await settled(stage(), steady());
      t.model.script("Ask nobody", [{ kind: "reply", toolCalls: [required(tools.question)()] }, "Then not."]);
      const turn = follow(t.host.submit(member, "Ask nobody."));
      const { question } = await turn.heard("turn.question_asked");
      await t.reopen(async () => {
        await until("the limit", () =>
          eventsOf(directory).some(
            (event) => event.type === "turn.question_closed" && event.request === question.request,
          ),
        );
      });
      await until("the end", () => t.host.turn(turn.handle.id).settlement !== null, 30_000);
      expect(t.host.turn(turn.handle.id).settlement).toMatchObject({
        settled: true,
        error: { code: "QUESTION_UNANSWERED" },
      });
      expect(eventsOf(directory)).toContainEqual(
        expect.objectContaining({
          type: "turn.question_closed",
          request: question.request,
          reply: "rejected",
          by: "deadline",
          result: "confirmed",
        }),
      );
      t.model.reset();
      expect((await play(t, member, "Somebody is here.")).settlement).toMatchObject({
        outcome: "completed",
        context: "LIVE",
      });
    },
  );

  test("laws 6, 13, P24: a provider out of reach for good ends the turn at the limit, while the controller is away too", async () => {
    const { t, steady, directory } = stage();
    const member = await settled(stage(), steady());
    const turn = await away(stage(), member, tools.shell, "stay", (id) =>
      eventsOf(directory).some((event) => event.type === "turn.ended" && event.turn === id),
    );
    await until("the end", () => t.host.turn(turn).settlement !== null, 30_000);
    expect(t.host.turn(turn).settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      error: { code: "PROVIDER_WAIT_LIMIT" },
    });
    t.model.reset();
    expect((await play(t, member, "Back again.")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
  });
}

/** A turn in whose middle the controller, and with it the way to the provider, goes away, until `isEnough` holds. Its id. */
export async function away(
  { t, workspace }: Stage,
  member: string,
  shell: DriverSubject["tools"]["shell"],
  name: string,
  isEnough: (turn: string) => boolean,
  limitMs = 60_000,
): Promise<string> {
  t.model.script(`Go and ${name}`, [
    { kind: "reply", toolCalls: [shell(`until [ -e '${name}.go' ]; do sleep 0.05; done`)] },
    "Here again.",
  ]);
  const turn = follow(t.host.submit(member, `Go and ${name}.`));
  await turn.heard("turn.tool");
  await t.reopen(async () => {
    writeFileSync(`${workspace}/${name}.go`, "");
    await until("enough", () => isEnough(turn.handle.id), limitMs);
  });
  return turn.handle.id;
}
