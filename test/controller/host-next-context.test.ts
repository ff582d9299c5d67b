// The context of a turn that nobody has submitted: what it would be, and that asking changes nothing.
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { startFakeHost } from "../support/fake-host.ts";
import { RESULTS } from "../support/samples.ts";

const failed = (code: string) => expect.objectContaining({ code });

/** A member with one settled turn, and a bridge that says what of it is resident. */
async function retained() {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const turn = fake.host.submit(member, "one");
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await turn.settlement;
  const [sample] = RESULTS["bridge.status"].members;
  if (sample === undefined) throw new Error("no sample");
  const { launch, launchParts } = bridge.submission();
  bridge.answers["bridge.status"] = async () => ({
    members: [{ ...sample, member, launchDigest: launch.digest, launchParts }],
    openTurns: [],
    numbers: [],
  });
  return { fake, member, bridge };
}

test("NEW before the first settled turn, also where nothing was made yet; nothing is made by asking", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  expect(await fake.host.nextContext(member)).toEqual({
    status: "NEW",
    reason: "no native turn has settled",
    toProve: null,
    blocked: null,
    launchChanges: [],
  });
  expect(fake.sandboxes.calls).toEqual([]);
  await expect(fake.host.nextContext("none")).rejects.toEqual(failed("MEMBER_UNKNOWN"));
});

test("LIVE by its process, RESTORED when the launch changed, with the part that did; nothing is sent", async () => {
  const { fake, member, bridge } = await retained();
  expect(await fake.host.nextContext(member)).toMatchObject({ status: "LIVE", toProve: null });
  const { model } = fake.host.member(member).options;
  fake.host.changeMember(member, { model: { ...model, name: "m2" } });
  expect(await fake.host.nextContext(member)).toMatchObject({
    status: "RESTORED",
    reason: "the model changed",
    launchChanges: ["model"],
    toProve: expect.stringContaining("msg_11"),
  });
  expect(bridge.submissions()).toHaveLength(1);
  expect(fake.host.member(member).submissions).toBe(1);
});

test("a sandbox that is stopped stays stopped, and one that is gone is LOST", async () => {
  const { fake, member } = await retained();
  await fake.host.stopSandbox("box");
  expect(await fake.host.nextContext(member)).toMatchObject({
    status: "RESTORED",
    reason: "no process is resident",
  });
  expect(fake.host.store.sandbox("box")?.wanted).toBe("stopped");
  expect(fake.sandboxes.count("start")).toBe(1);
  fake.sandboxes.states.set("box", "missing");
  expect(await fake.host.nextContext(member)).toMatchObject({ status: "LOST" });
});

test("an engine or a bridge that does not answer leaves it open, with the reason", async () => {
  const { fake, member, bridge } = await retained();
  bridge.answers["bridge.status"] = () => Promise.reject(new HoldfastError("OVERLOADED", "too much"));
  expect(await fake.host.nextContext(member)).toMatchObject({
    status: null,
    reason: expect.stringContaining("too much"),
  });
  fake.sandboxes.before.state = () => Promise.reject(new HoldfastError("ENGINE_ERROR", "no engine"));
  fake.sandboxes.before.pinned = () => Promise.reject(new HoldfastError("IMAGE_MISSING"));
  expect(await fake.host.nextContext(member)).toMatchObject({
    status: null,
    reason: expect.stringContaining("no engine"),
  });
});

test("a running sandbox is heard by a host that has not spoken with it yet", async () => {
  const { fake, member, bridge } = await retained();
  await fake.reopen();
  const asked = fake.host.nextContext(member);
  const dialling = setInterval(() => void bridge.dial().catch(() => undefined /* nobody listens yet */), 50);
  expect(await asked).toMatchObject({ status: "LIVE" });
  clearInterval(dialling);
});

test("what a member was made with changes for its next turn; what does not fit is refused and changes nothing", async () => {
  const { fake, member, bridge } = await retained();
  const before = fake.host.member(member).options;
  const changed = fake.host.changeMember(member, { background: true });
  expect(changed.options).toEqual({ ...before, background: true });
  const wrong = { ...before.model, contextTokens: -1 };
  expect(() => fake.host.changeMember(member, { model: wrong })).toThrow(failed("REQUEST_INVALID"));
  expect(() => fake.host.changeMember("none", {})).toThrow(failed("MEMBER_UNKNOWN"));
  fake.host.submit(member, "two");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission().launch).toMatchObject({ background: true, model: before.model });
  expect(fake.onDisk("SELECT detail FROM audit WHERE what = 'member.options'")).toHaveLength(1);
});
