// A fork as the host carries it out, with a bridge whose answers are the test's.
import { expect, test } from "vitest";
import { HoldfastError } from "../../protocol/errors.ts";
import { dialAgain, type FakeHost, startFakeHost } from "../support/fake-host.ts";

const failed = (code: string) => expect.objectContaining({ code });
const SESSION = {
  nativeId: "ses_fork",
  directory: "/workspace",
  tail: { role: "assistant" as const, id: "msg_f" },
};

async function withParent() {
  const fake = await startFakeHost();
  const parent = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const first = fake.host.submit(parent, "one");
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await first.settlement;
  let asked = 0;
  bridge.answers["member.fork"] = async () => {
    asked += 1;
    return { session: SESSION };
  };
  return { fake, parent, bridge, asked: () => asked };
}

const members = (fake: FakeHost) => fake.host.membersOf("box").length;

test("a fork is ready with the session that the CLI made, and its first turn goes on from there", async () => {
  const { fake, parent, bridge, asked } = await withParent();
  const before = fake.host.member(parent);
  const fork = await fake.host.forkMember({ from: parent, key: "k", id: "m-fork" });
  expect(fork).toMatchObject({ member: "m-fork", state: "ready", session: SESSION });
  expect(fake.host.member(parent)).toEqual(before);
  expect(await fake.host.forkMember({ from: parent, key: "k" })).toEqual(fork);
  expect({ asked: asked(), members: members(fake) }).toEqual({ asked: 1, members: 2 });
  expect(await fake.host.nextContext("m-fork")).toMatchObject({ status: "RESTORED", blocked: null });
  fake.host.submit("m-fork", "two");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission()).toMatchObject({
    member: "m-fork",
    number: 1,
    forks: false,
    settledTurns: 1,
    locator: { ...before.locator, ...SESSION },
  });
});

test("two calls with one key at once are one fork; the key of another fork is refused", async () => {
  const { fake, parent, asked } = await withParent();
  const both = await Promise.all([1, 2].map(() => fake.host.forkMember({ from: parent, key: "k" })));
  expect(both[0]).toEqual(both[1]);
  expect({ asked: asked(), members: members(fake) }).toEqual({ asked: 1, members: 2 });
  await expect(fake.host.forkMember({ from: parent, key: "k", id: "m-x" })).rejects.toThrow(
    failed("FORK_KEY_USED"),
  );
  await expect(fake.host.forkMember({ from: parent, key: "no key" })).rejects.toThrow(
    failed("REQUEST_INVALID"),
  );
});

test("a host that died while the fork was made goes on with the same key, the same member and one session", async () => {
  const { fake, parent, bridge, asked } = await withParent();
  const { promise: never } = Promise.withResolvers<never>();
  const answer = bridge.answers["member.fork"];
  bridge.answers["member.fork"] = () => never;
  const lost = fake.host.forkMember({ from: parent, key: "k" }).catch((error: unknown) => error);
  await bridge.untilAsked("member.fork");
  await fake.reopen();
  expect(await lost).toBeInstanceOf(HoldfastError);
  const [row] = fake.onDisk<{ member: string; state: string }>("SELECT member, state FROM forks");
  expect(row).toMatchObject({ state: "prepared" });
  const member = row?.member ?? "";
  expect(() => fake.host.submit(member, "too early")).toThrow(failed("FORK_UNFINISHED"));
  expect(await fake.host.nextContext(member)).toMatchObject({ blocked: { code: "FORK_UNFINISHED" } });
  bridge.answers["member.fork"] = answer;
  const again = fake.host.forkMember({ from: parent, key: "k" });
  await dialAgain(fake);
  expect(await again).toMatchObject({ member, state: "ready" });
  expect({ asked: asked(), members: members(fake) }).toEqual({ asked: 1, members: 2 });
});

test("a session that was recorded before a crash is taken over without asking anybody", async () => {
  const { fake, parent, asked } = await withParent();
  fake.host.store.changeForks(parent, (forks) => {
    forks.prepare({ key: "k", parent, id: "m-fork" }, () => "");
    forks.materialized("m-fork", SESSION);
  });
  await fake.reopen();
  expect(await fake.host.forkMember({ from: parent, key: "k" })).toMatchObject({ state: "ready" });
  expect(asked()).toBe(0);
});

test("a CLI that forks with a turn: the copy is there, and the first turn says so", async () => {
  const { fake, parent, bridge } = await withParent();
  bridge.answers["member.fork"] = async () => ({ session: null });
  const fork = await fake.host.forkMember({ from: parent, key: "k" });
  expect(fork).toMatchObject({ state: "prepared", awaits_turn: true });
  expect(await fake.host.nextContext(fork.member)).toMatchObject({ status: "RESTORED", blocked: null });
  const { locator } = fake.host.member(parent);
  const turn = fake.host.submit(fork.member, "two");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission()).toMatchObject({ forks: true, locator, settledTurns: 1 });
  bridge.answers["member.fork"] = () => Promise.reject(new Error("asked again"));
  expect(await fake.host.forkMember({ from: parent, key: "k" })).toEqual(fork);
  await turn.abort();
});

test("what no further try would change fails the fork for good; what may pass leaves it as it is", async () => {
  const { fake, parent, bridge } = await withParent();
  const answers = (code: "CLI_NOT_READY" | "CONTEXT_LOST") => {
    bridge.answers["member.fork"] = () => Promise.reject(new HoldfastError(code, `it is ${code}`));
  };
  answers("CLI_NOT_READY");
  await expect(fake.host.forkMember({ from: parent, key: "k" })).rejects.toThrow(failed("CLI_NOT_READY"));
  answers("CONTEXT_LOST");
  await expect(fake.host.forkMember({ from: parent, key: "k" })).rejects.toThrow(failed("CONTEXT_LOST"));
  bridge.answers["member.fork"] = async () => ({ session: SESSION });
  await expect(fake.host.forkMember({ from: parent, key: "k" })).rejects.toThrow("it is CONTEXT_LOST");
  const [row] = fake.onDisk<{ member: string }>("SELECT member FROM forks");
  expect(() => fake.host.submit(row?.member ?? "", "no")).toThrow(failed("FORK_FAILED"));
  expect(await fake.host.forkMember({ from: parent, key: "k-2" })).toMatchObject({ state: "ready" });
});

test("law 7: a session that belongs to the parent is no fork", async () => {
  const { fake, parent, bridge } = await withParent();
  const nativeId = fake.host.member(parent).locator?.nativeId ?? "";
  bridge.answers["member.fork"] = async () => ({ session: { ...SESSION, nativeId } });
  await expect(fake.host.forkMember({ from: parent, key: "k" })).rejects.toThrow(failed("IDENTITY_CHANGED"));
  expect(fake.onDisk("SELECT state FROM forks")).toEqual([{ state: "failed" }]);
});

test("a parent that is busy or has settled nothing is refused, and no member is made", async () => {
  const { fake, parent, bridge } = await withParent();
  await expect(fake.host.forkMember({ from: fake.member(), key: "a" })).rejects.toThrow(failed("FORK_EMPTY"));
  fake.host.submit(parent, "two");
  await bridge.untilAsked("turn.submit", 2);
  await expect(fake.host.forkMember({ from: parent, key: "b" })).rejects.toThrow(failed("MEMBER_BUSY"));
  await expect(fake.host.forkMember({ from: "nobody", key: "c" })).rejects.toThrow(failed("MEMBER_UNKNOWN"));
  expect(members(fake)).toBe(2);
});
