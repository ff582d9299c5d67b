// What a platform sees of a host. How turns are delivered, and what a restart keeps: host-delivery, host-restart.
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import type { TurnUpdate } from "../../controller/turn-handle.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { Settlement } from "../../protocol/settlement.ts";
import { startFakeHost } from "../support/fake-host.ts";
import { FakeSandboxes } from "../support/fake-sandbox.ts";
import { OPTIONS } from "../support/member-options.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const failed = (code: string) => expect.objectContaining({ code });
const RELAY = { routes: everyProtocol({ baseUrl: "http://127.0.0.1:9/v1", key: null }) };

async function started() {
  const fake = await startFakeHost();
  const member = fake.member();
  await fake.host.startSandbox("box");
  return { fake, member, bridge: fake.bridge(), sandboxes: fake.sandboxes };
}

test("a turn goes its whole way: admitted, sent once with everything it needs, followed, settled", async () => {
  const { fake, member, bridge } = await started();
  const text = " /größe 🦑\r\n@file ";
  const turn = fake.host.submit(member, text, { id: "t-1", limitMs: 5000 });
  expect(turn).toMatchObject({ id: "t-1", member, number: 1 });
  expect(fake.host.running("t-1")).toBe(turn);
  const seen: TurnUpdate[] = [];
  const reading = (async () => {
    for await (const update of turn) seen.push(update);
  })();
  await bridge.untilAsked("turn.submit");
  expect(bridge.submission()).toMatchObject({
    turn: "t-1",
    member,
    number: 1,
    text,
    locator: null,
    locatorIsPending: false,
    mustProve: null,
    settledTurns: 0,
    limitMs: 5000,
    container: { containerId: "container-box", sandboxId: "box", generation: 1 },
    launch: { cli: "opencode", ...OPTIONS },
  });
  bridge.send([{ kind: "delta", turn: "t-1", part: "p", offset: 0, text: "an answer" }]);
  bridge.end();
  expect(await turn.settlement).toEqual({ ...SETTLEMENT, context: "NEW" });
  await reading;
  expect(seen.map((update) => (update.kind === "event" ? update.entry.event.type : update.kind))).toEqual([
    "turn.accepted",
    "text",
    "turn.context",
    "turn.delivered",
    "settled",
  ]);
  expect(fake.host.running("t-1")).toBeNull();
  expect(fake.host.turn("t-1")).toMatchObject({ state: "settled", settlement: { outcome: "completed" } });
  expect(fake.host.store.eventsOf("t-1").map(({ seq }) => seq)).toEqual([1, 2, 3]);
});

test("B3: the next turn names the saved locator and the count of settled turns", async () => {
  const { fake, member, bridge } = await started();
  const first = fake.host.submit(member, "one");
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await first.settlement;
  fake.host.submit(member, "two");
  await bridge.untilAsked("turn.submit", 2);
  const { locator } = fake.host.member(member);
  expect(locator).toMatchObject({ nativeId: "ses_1", settledTurns: 1, cliVersion: "1.14.50" });
  expect(bridge.submission()).toMatchObject({ number: 2, settledTurns: 1, locator, locatorIsPending: false });
});

test("a locator that waits for its verification is sent as such, and saved once the bridge has proven it", async () => {
  const { fake, member, bridge } = await started();
  const first = fake.host.submit(member, "one");
  await bridge.untilAsked("turn.submit");
  const unverified = { nativeId: "ses_1", directory: "/workspace", tail: null, isVerified: false };
  bridge.end({ session: unverified });
  await first.settlement;
  expect(fake.host.member(member)).toMatchObject({ locator: null, settled_turns: 1 });
  const second = fake.host.submit(member, "two");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submission()).toMatchObject({
    locator: { nativeId: "ses_1", settledTurns: 1 },
    locatorIsPending: true,
    settledTurns: 1,
  });
  bridge.end({ outcome: "failed", settled: false, session: null });
  await second.settlement;
  expect(fake.host.member(member).locator).toMatchObject({ nativeId: "ses_1", settledTurns: 1 });
});

test("law 7, B2: a changed id fails the turn and leaves the locator byte for byte", async () => {
  const { fake, member, bridge } = await started();
  const first = fake.host.submit(member, "one");
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await first.settlement;
  const before = fake.onDisk("SELECT locator, settled_turns FROM members");
  const other = { nativeId: "ses_other", directory: "/workspace", tail: null, isVerified: true };
  for (const [n, outcome] of [
    [2, "completed"],
    [3, "failed"],
  ] as const) {
    const turn = fake.host.submit(member, "more");
    await bridge.untilAsked("turn.submit", n);
    bridge.end({ outcome, session: other });
    expect(await turn.settlement).toMatchObject({ outcome: "failed", error: { code: "IDENTITY_CHANGED" } });
    expect(fake.onDisk("SELECT locator, settled_turns FROM members")).toEqual(before);
  }
});

test("a member has one open turn, members of one sandbox run side by side", async () => {
  const { fake, member, bridge } = await started();
  fake.host.submit(member, "one");
  expect(() => fake.host.submit(member, "two")).toThrow(failed("MEMBER_BUSY"));
  fake.host.submit(fake.member(), "three");
  await bridge.untilAsked("turn.submit", 2);
  expect(bridge.submissions().map(({ text }) => text)).toEqual(["one", "three"]);
});

test("messages that can't be sent unchanged are refused before anything is kept or started", async () => {
  const fake = await startFakeHost();
  const member = fake.member();
  for (const [text, code] of [
    ["", "MESSAGE_EMPTY"],
    ["half \ud800", "REQUEST_INVALID"],
  ] as const)
    expect(() => fake.host.submit(member, text)).toThrow(failed(code));
  expect(() => fake.host.submit("nobody", "text")).toThrow(failed("MEMBER_UNKNOWN"));
  expect(fake.onDisk("SELECT * FROM turns")).toEqual([]);
  expect(fake.sandboxes.calls).toEqual([]);
});

test("abort asks for the turn's end; after the end there is nothing to abort", async () => {
  const { fake, member, bridge } = await started();
  const turn = fake.host.submit(member, "one", { id: "t-1" });
  await turn.abort();
  expect(bridge.asked.map(({ method }) => method).slice(-2)).toEqual(["turn.submit", "turn.abort"]);
  expect(bridge.paramsOf("turn.abort")).toEqual([{ turn: "t-1" }]);
  bridge.end({ outcome: "aborted" });
  await turn.settlement;
  await expect(turn.abort()).rejects.toEqual(failed("ABORT_NO_TURN"));
});

test("a retained member whose container is gone is LOST: refused, nothing sent, nothing made", async () => {
  const { fake, member, bridge, sandboxes } = await started();
  const first = fake.host.submit(member, "one");
  await bridge.untilAsked("turn.submit");
  bridge.end();
  await first.settlement;
  sandboxes.die("box", "missing");
  const { settlement } = fake.host.submit(member, "two", { id: "t-2" });
  expect(await settlement).toMatchObject({
    outcome: "refused",
    settled: false,
    context: "LOST",
    contextReason: expect.stringContaining("gone"),
    error: { code: "CONTEXT_LOST" },
  });
  expect(fake.host.turn("t-2").state).toBe("not_sent");
  expect(bridge.submissions()).toHaveLength(1);
  expect(sandboxes.count("create")).toBe(1);
  // A member without a settled turn has lost nothing.
  const other = await fake.host.submit(fake.member(), "three").settlement;
  expect(other).toMatchObject({ outcome: "not_sent", context: null, error: { code: "CONTEXT_LOST" } });
});

test("a reason of any length leaves a turn that can be read, and its member usable", async () => {
  const { fake, member, sandboxes } = await started();
  await fake.host.stopSandbox("box");
  sandboxes.measured = {
    foreignMounts: Array.from({ length: 200 }, (_, n) => `/a/long/way/to/a/mount/${n}`),
  };
  await fake.host.submit(member, "one", { id: "t-1" }).settlement;
  expect(Settlement.safeParse(fake.host.turn("t-1").settlement).success).toBe(true);
  expect(fake.host.submit(member, "two").number).toBe(2);
});

test("a sandbox is made once; what was removed is not listed", async () => {
  const fake = await startFakeHost();
  expect(fake.host.createSandbox({ kind: "docker", id: "a" })).toMatchObject({ id: "a", wanted: "stopped" });
  expect(() => fake.host.createSandbox({ kind: "docker", id: "a" })).toThrow(failed("SANDBOX_EXISTS"));
  const { id } = fake.host.createSandbox({ kind: "docker" });
  expect(id).toMatch(/^sb-[0-9a-f]{8}$/);
  await fake.host.removeSandbox("a");
  expect(fake.host.sandboxes().map((row) => row.id)).toEqual([id]);
  for (const step of [fake.host.startSandbox, fake.host.stopSandbox, fake.host.removeSandbox])
    await expect((async () => step("none"))()).rejects.toEqual(failed("SANDBOX_UNKNOWN"));
});

test("ids and options that can't be kept are refused, and leave nothing behind", async () => {
  const fake = await startFakeHost();
  fake.member();
  const make = (changes: object) => () =>
    fake.host.createMember({ sandbox: "box", cli: "opencode", ...OPTIONS, ...changes });
  for (const wrong of [
    { id: "no/id" },
    { id: "" },
    { cli: "nobody" },
    { model: { ...OPTIONS.model, name: "" } },
    { model: { ...OPTIONS.model, contextTokens: Number.NaN } },
    { permissions: {} },
  ])
    expect(make(wrong), JSON.stringify(wrong)).toThrow(failed("REQUEST_INVALID"));
  const responses = { ...OPTIONS.model, protocol: "responses" };
  expect(make({ model: responses })).toThrow(failed("MODEL_PROTOCOL_UNFIT"));
  expect(make({ cli: "claude" })).toThrow(failed("MODEL_PROTOCOL_UNFIT"));
  expect(make({ sandbox: "none" })).toThrow(failed("SANDBOX_UNKNOWN"));
  expect(() => fake.host.createSandbox({ kind: "docker", id: ".." })).toThrow(failed("REQUEST_INVALID"));
  expect(() => fake.host.createSandbox({ kind: "docker", id: "x".repeat(128) })).toThrow(
    failed("REQUEST_INVALID"),
  );
  expect(fake.host.membersOf("box")).toHaveLength(1);
  expect(fake.host.sandboxes()).toHaveLength(1);
});

test("a kind that this host does not offer is refused", async () => {
  const fake = await startFakeHost();
  expect(() => fake.host.createSandbox({ kind: "process" })).toThrow(failed("ENGINE_MISSING"));
});

test("an image that is not there does not keep a host from opening; its turns are not sent", async () => {
  const directory = temporaryDirectory();
  const sandboxes = new FakeSandboxes();
  sandboxes.before.pinned = () => Promise.reject(new HoldfastError("IMAGE_MISSING"));
  sandboxes.before.list = () => Promise.reject(new HoldfastError("ENGINE_MISSING"));
  const warnings: string[] = [];
  const onWarning = (what: string) => void warnings.push(what);
  const host = await openHost({ directory, drivers: [sandboxes], relay: RELAY, onWarning });
  onTestFinished(() => host.close());
  expect(warnings).toHaveLength(2);
  host.createSandbox({ kind: "docker", id: "box" });
  const { id } = host.createMember({ sandbox: "box", cli: "opencode", ...OPTIONS });
  expect(await host.submit(id, "text").settlement).toMatchObject({
    outcome: "not_sent",
    error: { code: "IMAGE_MISSING" },
  });
});

test("a model's route that no request could take is refused before the store is touched", async () => {
  const directory = temporaryDirectory();
  const relay = { routes: everyProtocol({ baseUrl: "http://127.0.0.1:9/v1", key: "with\nline" }) };
  await expect(openHost({ directory, drivers: [], relay })).rejects.toEqual(failed("REQUEST_INVALID"));
  expect(readdirSync(directory)).toEqual([]);
});

test("a store has one host at a time, and a failed opening leaves it free", async () => {
  const fake = await startFakeHost();
  await expect(fake.open()).rejects.toEqual(failed("STORE_OWNED"));
  await fake.reopen();
  const broken = temporaryDirectory();
  mkdirSync(join(broken, "holdfast.db"));
  for (let n = 0; n < 2; n += 1)
    await expect(openHost({ directory: broken, drivers: [], relay: RELAY })).rejects.toEqual(
      failed("STORE_ERROR"),
    );
});

test("closing may be repeated, and a closed host takes nothing more", async () => {
  const { fake, member } = await started();
  await fake.host.close();
  await fake.host.close();
  expect(() => fake.host.submit(member, "text")).toThrow(HoldfastError);
  await expect((async () => fake.host.startSandbox("box"))()).rejects.toThrow(HoldfastError);
  await fake.reopen();
});

test("what a removal or a creation left behind in the engine is cleared at the next opening", async () => {
  const { fake, sandboxes } = await started();
  fake.host.createSandbox({ kind: "docker", id: "half-made" });
  const other = new DatabaseSync(join(fake.directory, "holdfast.db"));
  other.exec("UPDATE sandboxes SET wanted = 'removed' WHERE id = 'box'");
  other.close();
  sandboxes.listed = [
    { sandboxId: "box", containerId: "container-box", wasStarted: true },
    { sandboxId: "half-made", containerId: "container-never-bound", wasStarted: false },
    { sandboxId: "somebody", containerId: "container-else", wasStarted: true },
  ];
  await fake.reopen();
  expect(sandboxes.count("remove")).toBe(2);
  expect(fake.warnings.join()).toContain("container-else");
});

test("turns that nobody knows are told as such", async () => {
  const fake = await startFakeHost();
  expect(() => fake.host.turn("none")).toThrow(failed("TURN_UNKNOWN"));
  expect(fake.host.running("none")).toBeNull();
  expect(() => fake.host.member("none")).toThrow(failed("MEMBER_UNKNOWN"));
});
