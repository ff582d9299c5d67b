// What a member's next turn would have, told beforehand, and then the turn itself: on a real CLI in a process sandbox.
import { expect, test } from "vitest";
import { createMember, startTestHost } from "../support/host.ts";
import { play, tellOnFailure } from "../support/turns.ts";

test("A3 to A6: the status that is told beforehand is the one that the turn has, with the same reason", async () => {
  const t = await startTestHost();
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "process");

  async function foretold(text: string) {
    const before = t.model.requests().length;
    const next = await t.host.nextContext(member);
    expect(t.model.requests()).toHaveLength(before);
    const { settlement } = await play(t, member, text);
    expect({ status: settlement.context, reason: settlement.contextReason }).toEqual({
      status: next.status,
      reason: next.reason,
    });
    return next;
  }

  expect(await foretold("The code word is limpet.")).toMatchObject({ status: "NEW" });
  expect(await foretold("What is the code word?")).toMatchObject({ status: "LIVE", toProve: null });
  const { model, permissions } = t.host.member(member).options;
  t.host.changeMember(member, { model: { ...model, outputTokens: 4000 } });
  expect(await foretold("And now?")).toMatchObject({ status: "RESTORED", reason: "the model changed" });
  t.host.changeMember(member, { permissions: { ...permissions, default: "deny" } });
  expect(await foretold("And then?")).toMatchObject({ reason: "the permission policy changed" });
  await t.host.stopSandbox(sandbox);
  const restored = await foretold("What is the code word?");
  expect(restored).toMatchObject({ status: "RESTORED", reason: "no process is resident" });
  const { tail } = t.host.store.locatorHistory(member).at(-2) ?? {};
  expect(restored.toProve).toContain(tail?.id);
  await t.host.removeSandbox(sandbox);
  expect(await t.host.nextContext(member)).toMatchObject({ status: "LOST", reason: "the container is gone" });
});
