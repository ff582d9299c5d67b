// The platform's own id of a turn: the same message under it is one turn, however often it is submitted.
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { dialAgain, startFakeHost } from "../support/fake-host.ts";
import { SETTLEMENT } from "../support/samples.ts";

const failed = (code: string) => expect.objectContaining({ code });

async function submitted() {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  const submit = (text = "one", id = "t-1") => fake.host.submit(member, text, { id });
  const turn = submit();
  const bridge = fake.bridge();
  await bridge.untilAsked("turn.submit");
  return { fake, member, bridge, submit, turn };
}

test("while the turn runs the same submission gives its very handle, and nothing is sent twice", async () => {
  const { submit, turn, bridge, fake } = await submitted();
  expect(submit()).toBe(turn);
  bridge.end();
  await turn.settlement;
  expect(bridge.submissions()).toHaveLength(1);
  expect(fake.onDisk("SELECT id FROM turns")).toHaveLength(1);
});

test("before anything was sent it is the same turn too", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  const handles = [1, 2, 3].map(() => fake.host.submit(member, "one", { id: "t-1" }));
  expect(new Set(handles).size).toBe(1);
});

test("when it has ended the same submission gives its settlement, whatever that is, also after a restart", async () => {
  for (const outcome of ["completed", "failed"] as const) {
    const { submit, turn, bridge, fake, member } = await submitted();
    bridge.end({ outcome });
    await turn.settlement;
    for (const isRestarted of [false, true]) {
      if (isRestarted) await fake.reopen();
      const again = submit();
      expect(again).toMatchObject({ id: "t-1", member, number: 1 });
      expect(await again.settlement).toEqual({ ...SETTLEMENT, outcome, context: "NEW" });
    }
    expect(bridge.submissions()).toHaveLength(1);
    expect(fake.host.member(member).submissions).toBe(1);
  }
});

test("a turn that was not sent is not sent by submitting it again", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  fake.sandboxes.before.create = () => Promise.reject(new HoldfastError("ENGINE_ERROR", "no"));
  expect(await fake.host.submit(member, "one", { id: "t-1" }).settlement).toMatchObject({
    outcome: "not_sent",
  });
  delete fake.sandboxes.before.create;
  expect(await fake.host.submit(member, "one", { id: "t-1" }).settlement).toMatchObject({
    outcome: "not_sent",
  });
  expect(fake.sandboxes.bridges.size).toBe(0);
});

test("a turn that a restart took up is followed by the same submission", async () => {
  const { submit, bridge, fake } = await submitted();
  await fake.reopen();
  const turn = submit();
  expect(fake.host.running("t-1")).toBe(turn);
  await dialAgain(fake);
  bridge.end();
  expect(await turn.settlement).toMatchObject({ outcome: "completed" });
  expect(bridge.submissions()).toHaveLength(1);
});

test("another text or another member under the id is refused, running or ended", async () => {
  const { submit, turn, bridge, fake } = await submitted();
  const other = fake.host.createMember({
    sandbox: "box",
    cli: "opencode",
    model: fake.host.member(turn.member).options.model,
  }).id;
  const refusals = () => {
    expect(() => submit("two")).toThrow(failed("TURN_ID_USED"));
    expect(() => fake.host.submit(other, "one", { id: "t-1" })).toThrow(failed("TURN_ID_USED"));
  };
  refusals();
  bridge.end();
  await turn.settlement;
  refusals();
  expect(bridge.submissions()).toHaveLength(1);
  expect(fake.onDisk("SELECT id FROM turns")).toHaveLength(1);
});

test("a member has one unresolved turn, and another member runs beside it", async () => {
  const { submit, bridge, fake } = await submitted();
  expect(() => submit("two", "t-2")).toThrow(failed("MEMBER_BUSY"));
  fake.host.submit(fake.member(), "two", { id: "t-2" });
  await bridge.untilAsked("turn.submit", 2);
});
