import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { openSandboxLink, type SandboxLink } from "../../controller/sandbox-link.ts";
import { makeSandboxDirectory, sandboxPaths, sandboxToken } from "../../controller/sandboxes/directory.ts";
import type { Applied } from "../../controller/store/store.ts";
import { encode } from "../../protocol/codec.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Frame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { FakeBridge } from "../support/fake-bridge.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { passing, passingUntil } from "../support/fake-host.ts";
import { AT, EVENTS, FRAME_OF, SETTLEMENT } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";
import { context, delivered, ended, simpleRig } from "./store/rig.ts";

async function rig() {
  const stored = simpleRig();
  stored.admit("t-1");
  const paths = sandboxPaths(temporaryDirectory(), "box");
  await makeSandboxDirectory(paths);
  const clock = new FakeClock();
  const seen = {
    ups: 0,
    downs: [] as Array<string | null>,
    applied: [] as Applied[],
    lost: [] as string[],
    texts: [] as Frame[],
  };
  const unsent = new Set<string>();
  const bridge = new FakeBridge({ directory: paths.directory, sandboxId: "box" });
  bridge.journalId = "journal-box";
  const open = async (): Promise<SandboxLink> =>
    openSandboxLink({
      sandboxId: "box",
      paths,
      token: await sandboxToken(paths),
      store: stored.store,
      clock,
      takeOver: false,
      unsent,
      onUp: () => {
        seen.ups += 1;
      },
      onDown: (cause: HoldfastError | null) => void seen.downs.push(cause?.code ?? null),
      onApplied: (applied) => void seen.applied.push(applied),
      onLost: (lost) => void seen.lost.push(...lost.map(({ turn }) => turn)),
      onText: (frames) => void seen.texts.push(...frames),
    });
  const made = {
    ...stored,
    store: stored.store,
    paths,
    clock,
    seen,
    unsent,
    bridge,
    open,
    link: await open(),
  };
  onTestFinished(async () => {
    bridge.vanish();
    await made.link.close();
  });
  return made;
}

/** Makes the store of a rig another controller's. */
function fenceOff(directory: string): void {
  const other = new DatabaseSync(join(directory, "holdfast.db"));
  other.exec("UPDATE meta SET value = '99' WHERE name = 'fence'");
  other.close();
}

const rowsOnDisk = (directory: string, sql: string): unknown[] => {
  const reader = new DatabaseSync(join(directory, "holdfast.db"), { readOnly: true });
  try {
    return reader.prepare(sql).all();
  } finally {
    reader.close();
  }
};

test("a bridge with the right token is welcomed with the fence and what was applied", async () => {
  const { link, bridge, seen, store, paths, apply } = await rig();
  apply([delivered("t-1")]);
  bridge.claimedHead = 7;
  expect(statSync(paths.controllerSocket).mode & 0o777).toBe(0o600);
  expect(link.isUp()).toBe(false);
  expect(link.silentMs()).toBeNull();
  expect(await bridge.dial()).toBe("welcome");
  expect(bridge.welcomes).toEqual([{ fence: store.fence, applied: 1 }]);
  expect(link.isUp()).toBe(true);
  expect(link.silentMs()).toBe(0);
  expect(seen).toMatchObject({ ups: 1, downs: [], lost: [] });
});

test("a token, sandbox or pin that is not exactly right is refused with the reason, and without the token", async () => {
  const wrong: Array<[Partial<FakeBridge>, RegExp]> = [
    [{ token: "0".repeat(64) }, /token is wrong/],
    [{ token: "0123456789abcdef" }, /token is wrong/],
    [{ sandboxId: "other" }, /of sandbox other/],
    [{ pin: "http-agent-live-bridge=3" }, /says http-agent-live-bridge=3/],
    [{ pin: "http-agent-live-bridge=5" }, /says http-agent-live-bridge=5/],
    [{ pin: "" }, /says , this host needs/],
    [{ pin: "http-agent-live-bridge=4 http-agent-live-bridge=4" }, /this host needs/],
  ];
  const { link, paths, seen, store } = await rig();
  const token = await sandboxToken(paths);
  for (const [faults, reason] of wrong) {
    const bridge = new FakeBridge({ directory: paths.directory, sandboxId: "box" });
    Object.assign(bridge, faults);
    expect(await bridge.dial()).toBe("refuse");
    expect(bridge.refusals[0]).toMatchObject({
      code: "ATTESTATION_FAILED",
      message: expect.stringMatching(reason),
    });
    expect(JSON.stringify(bridge.refusals)).not.toContain(token);
    await until("its close", () => bridge.closes.length > 0);
  }
  expect(link.isUp()).toBe(false);
  expect(seen.ups).toBe(0);
  expect(seen.downs).toEqual(wrong.map(() => "ATTESTATION_FAILED"));
  expect(store.sandbox("box")?.applied).toBe(0);
});

test("a bridge that has seen a higher fence is welcomed with one above it; beyond all reason it is not", async () => {
  const { link, bridge, seen, store } = await rig();
  bridge.claimedFence = 7;
  expect(await bridge.dial()).toBe("welcome");
  expect(bridge.welcomes).toEqual([{ fence: 8, applied: 0 }]);
  expect(store.fence).toBe(8);
  bridge.claimedFence = Number.MAX_SAFE_INTEGER;
  expect(await bridge.dial()).toBe("closed");
  expect(link.isUp()).toBe(false);
  expect(seen.downs).toEqual(["FENCED"]);
  expect(store.fence).toBe(8);
});

test("a bridge that has dropped more than was applied is welcomed where it is, and open turns are lost", async () => {
  const { bridge, seen, store, apply } = await rig();
  apply([delivered("t-1")]);
  bridge.claimedHead = 30;
  bridge.claimedAcked = 20;
  expect(await bridge.dial()).toBe("welcome");
  expect(bridge.welcomes).toMatchObject([{ applied: 20 }]);
  expect(seen.lost).toEqual(["t-1"]);
  expect(store.sandbox("box")?.applied).toBe(20);
});

test("one who is refused while a good bridge is up changes nothing for that one", async () => {
  const { link, bridge, paths, seen } = await rig();
  await bridge.dial();
  const other = new FakeBridge({ directory: paths.directory, sandboxId: "box" });
  other.token = "0".repeat(64);
  expect(await other.dial()).toBe("refuse");
  expect(seen.downs).toEqual([]);
  expect(link.isUp()).toBe(true);
  expect(await link.request("bridge.status", {})).toMatchObject({ members: [] });
});

test("one who says nothing, something else first, or no frame at all is closed", async () => {
  const { link, bridge, clock, seen } = await rig();
  const silent = await bridge.connect();
  const ends: number[] = [];
  silent.once("close", (code) => ends.push(code));
  await passing(clock, "the end of the silent one", () => ends.length === 1);
  for (const bytes of [
    encode([FRAME_OF.event]),
    encode([FRAME_OF.ping, FRAME_OF.ack]),
    encode([FRAME_OF.welcome]),
    Buffer.from("no frame"),
    Buffer.alloc(0),
  ]) {
    const socket = await bridge.connect();
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    socket.send(bytes);
    expect(await within("its close", closed)).toBe(4000);
  }
  expect(link.isUp()).toBe(false);
  expect(seen).toMatchObject({ ups: 0, applied: [] });
  // The sandbox is told not ready for it: a helper that can't be read would dial again for ever.
  expect(seen.downs).toEqual(Array.from({ length: 5 }, () => "ATTESTATION_FAILED"));
});

test("one who can't be read beside a good bridge changes nothing for that one", async () => {
  const { link, bridge, paths, seen } = await rig();
  await bridge.dial();
  const other = new FakeBridge({ directory: paths.directory, sandboxId: "box" });
  const socket = await other.connect();
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.send(encode([FRAME_OF.event]));
  await within("its close", closed);
  expect(seen.downs).toEqual([]);
  expect(link.isUp()).toBe(true);
});

test("events are durable before they are acknowledged", async () => {
  const { bridge, directory, seen } = await rig();
  await bridge.dial();
  bridge.emit(delivered("t-1"));
  await until("the acknowledgement", () => bridge.acked === 1);
  expect(rowsOnDisk(directory, "SELECT state FROM turns")).toEqual([{ state: "delivered" }]);
  expect(rowsOnDisk(directory, "SELECT applied FROM sandboxes")).toEqual([{ applied: 1 }]);
  expect(seen.applied[0]?.events).toHaveLength(1);
});

test("events that come again after a reconnect take effect once", async () => {
  const { bridge, seen, store } = await rig();
  await bridge.dial();
  bridge.emit(context("t-1", "NEW", "ses_1"));
  bridge.emit(ended("t-1"));
  await until("the acknowledgement", () => bridge.acked === 2);
  bridge.vanish();
  await until("the end of the link", () => seen.downs.length === 1);
  bridge.replays = false;
  expect(await bridge.dial()).toBe("welcome");
  expect(bridge.welcomes.at(-1)?.applied).toBe(2);
  seen.applied.length = 0;
  bridge.send(bridge.journal.map((entry) => ({ kind: "event", entry })));
  await until("what came of them", () => seen.applied.length === 1);
  expect(seen.applied[0]).toEqual({ events: [], settled: [], conflicts: [] });
  expect(store.member("m-1")?.settled_turns).toBe(1);
});

test("a gap closes the link, and the next one goes on from what was applied", async () => {
  const { link, bridge, seen, store } = await rig();
  await bridge.dial();
  bridge.emit(delivered("t-1"));
  await until("the acknowledgement", () => bridge.acked === 1);
  bridge.send([{ kind: "event", entry: { seq: 3, at: AT, event: ended("t-1") } }]);
  await until("the end of the link", () => seen.downs.length === 1);
  expect(seen.downs).toEqual(["FRAME_INVALID"]);
  expect(link.isUp()).toBe(false);
  expect(store.sandbox("box")?.applied).toBe(1);
  bridge.emit(context("t-1", "NEW", "ses_1"));
  bridge.emit(ended("t-1"));
  expect(await bridge.dial()).toBe("welcome");
  await until("the acknowledgement", () => bridge.acked === 3);
  expect(store.turn("t-1")?.state).toBe("settled");
});

test("a burst of events beyond one message is applied whole", async () => {
  const { bridge, store } = await rig();
  await bridge.dial();
  const count = LIMITS.framesPerMessage + 100;
  const entries = Array.from({ length: count }, (_, at) => ({
    seq: at + 1,
    at: AT,
    event: EVENTS["turn.tool"],
  }));
  bridge.send(entries.map((entry) => ({ kind: "event", entry })));
  await until("the acknowledgement", () => bridge.acked === count);
  expect(store.eventsOf("t-1")).toHaveLength(count);
});

test("a store that can't take events, or that is another's by now, gets no acknowledgement", async () => {
  const { link, bridge, directory, seen } = await rig();
  await bridge.dial();
  fenceOff(directory);
  bridge.emit(delivered("t-1"));
  await until("the end of the link", () => seen.downs.length === 1);
  expect(seen.downs).toEqual(["FENCED"]);
  expect(bridge.acked).toBe(0);
  // A stale controller takes no bridge any more, and says that it has none.
  expect(await bridge.dial()).toBe("closed");
  expect(link.isUp()).toBe(false);
  expect(seen.downs).toEqual(["FENCED", "FENCED"]);
  expect(rowsOnDisk(directory, "SELECT state FROM turns")).toEqual([{ state: "admitted" }]);
});

test("a new link discards the old one and what is still in it, without a gap in readiness", async () => {
  const { link, bridge, paths, seen, store } = await rig();
  await bridge.dial();
  bridge.answers["turn.abort"] = () => new Promise(() => undefined);
  const pending = expect(link.request("turn.abort", { turn: "t-1" })).rejects.toMatchObject({
    code: "LINK_CLOSED",
  });
  await bridge.untilAsked("turn.abort");
  const next = new FakeBridge({ directory: paths.directory, sandboxId: "box" });
  next.journalId = bridge.journalId;
  onTestFinished(() => next.vanish());
  expect(await next.dial()).toBe("welcome");
  await pending;
  bridge.send([{ kind: "event", entry: { seq: 1, at: AT, event: delivered("t-1") } }]);
  await link.request("bridge.status", {});
  expect(next.paramsOf("bridge.status")).toHaveLength(1);
  expect(store.turn("t-1")?.state).toBe("admitted");
  expect(seen).toMatchObject({ ups: 2, downs: [] });
});

test("requests are answered, refused by the bridge's own code, or end with the link", async () => {
  const { link, bridge } = await rig();
  const turn = { turn: "t-1" };
  await expect(link.request("turn.abort", turn)).rejects.toMatchObject({ code: "LINK_CLOSED" });
  await bridge.dial();
  expect(await link.request("member.retire", { member: "m-1" })).toEqual({ wasResident: false });
  bridge.answers["turn.abort"] = () => Promise.reject(new HoldfastError("ABORT_NO_TURN", "none"));
  await expect(link.request("turn.abort", turn)).rejects.toMatchObject({
    code: "ABORT_NO_TURN",
    message: "none",
  });
  bridge.answers["turn.abort"] = () => new Promise(() => undefined);
  const pending = link.request("turn.abort", turn);
  await bridge.untilAsked("turn.abort", 2);
  bridge.vanish();
  await expect(pending).rejects.toMatchObject({ code: "LINK_CLOSED" });
});

test("an answer that never comes is given up at its limit, and the link stays", async () => {
  const { link, bridge, clock } = await rig();
  await bridge.dial();
  bridge.answers["turn.abort"] = () => new Promise(() => undefined);
  const given = passingUntil(clock, "the limit", link.request("turn.abort", { turn: "t-1" }, 1000));
  expect(await given).toMatchObject({ code: "LINK_TIMEOUT" });
  expect(link.isUp()).toBe(true);
});

test("text is passed on, and the bridge is told of its taking in steps", async () => {
  const { bridge, seen } = await rig();
  await bridge.dial();
  const piece = {
    kind: "delta",
    turn: "t-1",
    part: "p",
    offset: 0,
    text: "x".repeat(LIMITS.windowBytes / 16),
  } as const;
  bridge.send([piece]);
  await until("the text", () => seen.texts.length === 1);
  expect(seen.texts).toEqual([piece]);
  expect(bridge.consumedBytes).toBe(0);
  bridge.send([piece, { kind: "snapshot", turn: "t-1", part: "p", text: "y" }]);
  await until("the step", () => bridge.consumedBytes > 0);
  expect(bridge.consumedBytes).toBe(2 * (piece.text.length + 64) + 65);
  expect(seen.texts).toHaveLength(3);
});

test("frames that only a controller may send close the link", async () => {
  const { bridge, seen } = await rig();
  for (const frame of [FRAME_OF.welcome, FRAME_OF.ack, FRAME_OF.consumed, FRAME_OF.refuse, bridge.hello()]) {
    const before = seen.downs.length;
    expect(await bridge.dial()).toBe("welcome");
    bridge.send([frame]);
    await until(`the end of the link after ${frame.kind}`, () => seen.downs.length > before);
    expect(seen.downs.at(-1)).toBe("FRAME_INVALID");
  }
});

test("a bridge that is silent past two pings is given up, one that answers them is not", async () => {
  const { link, bridge, clock, seen } = await rig();
  await bridge.dial();
  for (let at = 0; at < 40; at += 1) {
    await clock.elapse(LIMITS.pingMs / 4);
    await link.request("bridge.status", {});
  }
  expect(link.isUp()).toBe(true);
  const frozen = await bridge.connect();
  frozen.send(encode([bridge.hello()]));
  await until("the second link", () => seen.ups === 2);
  await passing(clock, "the end of the frozen one", () => seen.downs.length === 1);
  expect(seen.downs).toEqual(["LINK_TIMEOUT"]);
});

test("turns that a lost journal leaves open are told before the link is up, the unsent ones are kept", async () => {
  const { bridge, seen, unsent, store, member, admit } = await rig();
  member("m-2");
  admit("t-2", "m-2");
  unsent.add("t-2");
  bridge.journalId = "another";
  await bridge.dial();
  expect(seen.lost).toEqual(["t-1"]);
  expect(store.turn("t-1")?.state).toBe("unknown");
  expect(store.turn("t-2")?.state).toBe("admitted");
});

test("closing takes socket and bridge along, tells nobody, and leaves the path free for the next", async () => {
  const { link, bridge, paths, seen, open } = await rig();
  await bridge.dial();
  await within("the close", link.close());
  await until("the bridge's end", () => bridge.closes.length === 1);
  expect(existsSync(paths.controllerSocket)).toBe(false);
  expect(link.isUp()).toBe(false);
  expect(seen.downs).toEqual([]);
  const again = await open();
  onTestFinished(() => again.close());
  expect(await bridge.dial()).toBe("welcome");
});

test("a settlement reaches the caller as it was stored", async () => {
  const { bridge, seen } = await rig();
  await bridge.dial();
  bridge.emit(ended("t-1"));
  await until("the settlement", () => seen.applied.length === 1);
  expect(seen.applied[0]?.settled).toEqual([{ turn: "t-1", settlement: SETTLEMENT }]);
});
