// The same driver over the stand-in that plays Kilo: brackets, queue, transient parts, order by id, network requests.
import { expect, test } from "vitest";
import { locatorOf, type Rig, running, steps, submit, textOf } from "../serve/rig.ts";

const kilo = { cli: "kilo" } as const;

test("an ordinary turn: transient parts and second copies of events are no text, and the closed bracket is the end", async () => {
  const { rig, resident } = await running({
    ...kilo,
    turns: [
      steps({ transient: 2 }, { tool: "bash", ask: {} }, { text: "the answer" }),
      steps({ text: "two" }),
    ],
  });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed", error: null });
  expect(textOf(rig)).toBe("the answer");
  expect(rig.of("native_end")).toHaveLength(1);
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "once" }]);
  resident.endTurn();
  rig.observations.length = 0;
  await submit(resident);
  await rig.seen("native_end");
  expect(textOf(rig)).toBe("two");
  expect(rig.unrequested).toEqual([]);
  await resident.stop();
});

test("P8: a child's request that is rejected, and the child goes on: one reply, and the root ends once", async () => {
  const { rig, resident } = await running(
    { ...kilo, turns: [steps({ task: [{ tool: "bash", ask: {} }, { text: "low" }] }, { text: "top" })] },
    {},
    { default: "deny" },
  );
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.of("permission_closed")).toMatchObject([{ result: "confirmed", reply: "reject" }]);
  expect(textOf(rig)).toBe("top");
  await resident.stop();
});

test("P17: an abort ends children and root, once, with what Kilo says around it", async () => {
  const { rig, resident } = await running({ ...kilo, turns: [steps({ task: [{ running: "bash" }] })] });
  await rig.seen("tool", ({ session }) => session !== resident.nativeId);
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  expect(rig.of("native_end")).toHaveLength(1);
  await resident.stop();
});

test("a provider that is out of reach for a moment: told as waiting, tried again by its own call, and the turn goes on", async () => {
  const { rig, resident } = await running({
    ...kilo,
    turns: [steps({ offline: "connection refused" }, { text: "back" })],
  });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(rig.of("waiting")).toContainEqual(
    expect.objectContaining({ reason: "connection refused", attempt: 1, nextAt: expect.any(Number) }),
  );
  expect(await rig.calls("POST /network/")).toHaveLength(1);
  expect(textOf(rig)).toBe("back");
  await resident.stop();
});

test("P19: a provider that stays out of reach is bounded by the wait's limit, and an abort while offline ends the turn", async () => {
  const { rig, resident } = await running(
    { ...kilo, turns: [steps({ offline: "connection refused", times: 99 }), steps({ text: "next" })] },
    { providerWaitMs: 1500 },
  );
  expect(await rig.seen("provider_late")).toMatchObject({ reason: "connection refused" });
  expect(await resident.abort()).toBe(true);
  expect(await rig.seen("native_end")).toMatchObject({ status: "aborted" });
  resident.endTurn();
  const tries = (await rig.calls("POST /network/")).length;
  expect(tries).toBe(1);
  // The request of the aborted turn stays in the list, and gets no answer any more.
  rig.observations.length = 0;
  await submit(resident);
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  expect(await rig.calls("POST /network/")).toHaveLength(tries);
  await resident.stop();
});

test("somebody else's prompt in the middle of a turn: ours ends with its own bracket, and what follows is not ours", async () => {
  const { rig, resident } = await running({
    ...kilo,
    turns: [steps({ transient: 3 }, { text: "mine" }), steps({ text: "theirs" })],
  });
  await rig.seen("own_event");
  await rig.post(`/session/${resident.nativeId}/prompt_async`, {
    messageID: "msg_theirs",
    parts: [{ id: "prt_theirs", type: "text", text: "theirs" }],
  });
  expect(await rig.seen("native_end")).toMatchObject({ status: "completed" });
  resident.endTurn();
  await resident.gate();
  expect(textOf(rig)).toBe("mine");
  expect(rig.of("native_end")).toHaveLength(1);
  await resident.stop();
});

/** A settled conversation on disk, and its locator. */
async function settled(): Promise<{ rig: Rig; locator: ReturnType<typeof locatorOf> }> {
  const { rig, resident } = await running({ ...kilo, turns: [steps({ text: "first" })] });
  const { tail } = await rig.seen("native_end");
  resident.endTurn();
  await resident.stop();
  rig.observations.length = 0;
  return { rig, locator: { ...locatorOf(resident, tail), cli: "kilo" } };
}

test("after a resume the next message id is greater than every id of the history", async () => {
  const { rig, locator } = await settled();
  const result = await rig.driver.launch(rig.request(), locator);
  if (result.kind !== "resumed") return expect.unreachable(`got ${result.kind}`);
  const next = result.resident.nextMessageId();
  for (const { info } of (await rig.store())[0]?.messages ?? []) expect(next > info.id).toBe(true);
  await result.resident.stop();
});

test("a history whose newest id lies in the future (a clock that was set back) is CLOCK_BEHIND, and nothing was sent", async () => {
  const { rig, locator } = await settled();
  const time = ((BigInt(Date.now()) + 3_600_000n) * 4096n) % 2n ** 48n;
  const ahead = `msg_${time.toString(16).padStart(12, "0")}${"A".repeat(14)}`;
  await rig.keep(
    (await rig.store()).map((session) => ({
      ...session,
      messages: [
        ...session.messages,
        { info: { ...session.messages.at(-1)?.info, id: ahead, role: "assistant" }, parts: [] },
      ],
    })),
  );
  const sent = (await rig.calls("prompt_async")).length;
  const canaries = (await rig.calls("/tui/publish")).length;
  const result = await rig.driver.launch(rig.request(), locator);
  if (result.kind !== "resumed") return expect.unreachable(`got ${result.kind}`);
  await expect(result.resident.gate()).rejects.toMatchObject({ code: "CLOCK_BEHIND" });
  expect(await rig.calls("prompt_async")).toHaveLength(sent);
  expect(await rig.calls("/tui/publish")).toHaveLength(canaries);
  await result.resident.stop();
});
