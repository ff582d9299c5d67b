/** A history whose newest message lies in the future: where the CLI orders by ids, it would forget every later turn. */
import { expect, test } from "vitest";
import { createNativeIds } from "../../../bridge/drivers/serve/native-id.ts";
import { play } from "../../support/turns.ts";
import { until } from "../../support/until.ts";
import { nativeServer } from "./native.ts";
import { type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

const HOUR_MS = 3_600_000;

export function clockTests(stage: () => Stage, subject: DriverSubject): void {
  test.skipIf(subject.server === null)(
    "design 4, facts 3.6: a message from the future is a refusal where it would shorten the history, and nothing is sent; else it changes nothing",
    async () => {
      const own = stage().apart();
      const { t, sandbox, workspace } = own;
      const member = await settled(own, own.fresh());
      const { nativeId } = t.host.member(member).locator ?? {};
      const native = await nativeServer(subject, { sandbox, member, workspace });
      const ids = createNativeIds(() => Date.now() + HOUR_MS, false);
      const messageID = ids.next("msg");
      await native.ask("POST", `/session/${nativeId}/prompt_async`, {
        messageID,
        noReply: true,
        parts: [{ type: "text", text: "From the future." }],
      });
      const stored = () => native.ask<Array<{ info: { id: string } }>>("GET", `/session/${nativeId}/message`);
      await until("the message", async () => (await stored()).some(({ info }) => info.id === messageID));
      for (const context of ["LIVE", "RESTORED"]) {
        t.model.reset();
        const { settlement } = await play(t, member, `Do you remember, ${context}?`);
        if (subject.ordersById) {
          expect(settlement).toMatchObject({ outcome: "not_sent", context, error: { code: "CLOCK_BEHIND" } });
          expect(t.model.requests()).toEqual([]);
        } else {
          expect(settlement).toMatchObject({ outcome: "completed", context });
          expect(spoken(stage(), t.model.mainRequests()[0])).toContain(
            "Say something before the test begins.",
          );
        }
        await t.host.stopSandbox(sandbox);
      }
    },
  );
}
