import { createHmac } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Bridge, challengeProof, startBridge } from "../../bridge/bridge.ts";
import { listSlot, reapSlot } from "../../bridge/census.ts";
import { realClock } from "../../bridge/clock.ts";
import { readRecords } from "../../bridge/journal-record.ts";
import { startProcess } from "../../bridge/process.ts";
import { openSlot } from "../../bridge/slots.ts";
import { type BridgeConfig, DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import type { HoldfastError } from "../../protocol/errors.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Result } from "../../protocol/methods.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import { keptLog } from "../support/kept-log.ts";
import { type LinkPeer, LinkServer } from "../support/link-server.ts";
import { CONTAINER, DIGEST_A, DIGEST_B, LAUNCH, PARAMS } from "../support/samples.ts";
import { standIn } from "../support/stand-in.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const TOKEN = "0123456789abcdef-token";
let sandboxes = 0;

/** A process sandbox's directory, whose CLI is a stand-in that stays and never becomes ready. */
function configOf(directory = temporaryDirectory()): BridgeConfig {
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name), { recursive: true });
  sandboxes += 1;
  return {
    storeId: "store-1",
    sandboxId: `box-${process.pid}-${sandboxes}`,
    isolation: "process",
    controllerSocket: join(directory, "ctl.sock"),
    modelSocket: join(directory, "model.sock"),
    tokenFile: join(directory, "token"),
    stateDirectory: join(directory, "state"),
    slotsDirectory: join(directory, "slots"),
    workspace: join(directory, "workspace"),
    users: null,
    clis: [{ cli: "opencode", version: "1.14.50", command: standIn("forever.ts") }],
    limits: { ...DEFAULT_LIMITS, stopMs: 2000 },
  };
}

interface Life {
  bridge: Bridge;
  broken: HoldfastError[];
  log: ReturnType<typeof keptLog>;
}

async function begin(config: BridgeConfig): Promise<Life> {
  const broken: HoldfastError[] = [];
  const log = keptLog();
  const bridge = await startBridge({
    config,
    token: TOKEN,
    helperSha256: DIGEST_A,
    clis: [{ cli: "opencode", version: "1.14.50" }],
    clock: realClock,
    log,
    onBroken: (error) => broken.push(error),
  });
  onTestFinished(() => bridge.stop().catch(() => undefined /* stopped by the test */));
  return { bridge, broken, log };
}

/** A controller that listens for this sandbox, and acknowledges when the test says so. */
async function controllerOf(config: BridgeConfig): Promise<LinkServer> {
  const server = await new LinkServer(config.controllerSocket).listen();
  onTestFinished(() => server.close());
  return server;
}

async function taken(server: LinkServer, at = 0, acknowledges = true): Promise<LinkPeer> {
  const peer = await server.peer(at);
  await peer.hello();
  peer.acknowledges = acknowledges;
  peer.welcome(1);
  return peer;
}

function events(peer: LinkPeer): ControlEvent[] {
  return peer.of("event").map(({ entry }) => entry.event);
}

const submission = (number: number) => ({
  ...PARAMS["turn.submit"],
  turn: `t-${number}`,
  number,
  settledTurns: 0,
  locator: null,
  launch: LAUNCH,
  container: CONTAINER,
});
const question = (number: number) => ({ turn: `t-${number}`, member: "m-1", number, launch: null });

function journaled(config: BridgeConfig): ControlEvent[] {
  const { records } = readRecords(readFileSync(join(config.stateDirectory, "journal")));
  return records.flatMap((record) => (record.t === "event" ? [record.entry.event] : []));
}

test("a challenge is answered with pin, features, CLIs and a proof over nonce and bytes", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("bridge.challenge", { nonce: DIGEST_B })).toEqual({
    pin: HELPER_PIN,
    features: [...HELPER_FEATURES],
    clis: [{ cli: "opencode", version: "1.14.50" }],
    proof: createHmac("sha256", TOKEN).update(`${DIGEST_B}:${DIGEST_A}`).digest("hex"),
    helperSha256: DIGEST_A,
    epoch: 1,
    earlierEnd: "none",
  });
});

test("a proof depends on the token, the nonce and the bytes", () => {
  const proofs = [
    challengeProof(TOKEN, DIGEST_A, DIGEST_B),
    challengeProof(`${TOKEN}x`, DIGEST_A, DIGEST_B),
    challengeProof(TOKEN, DIGEST_B, DIGEST_B),
    challengeProof(TOKEN, DIGEST_A, DIGEST_A),
  ];
  expect(new Set(proofs).size).toBe(4);
  for (const proof of proofs) expect(proof).toMatch(/^[0-9a-f]{64}$/);
});

test("each life of the bridge says one epoch more, under the same journal id", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  const ids = new Set<string>();
  for (const epoch of [1, 2, 3]) {
    const { bridge } = await begin(config);
    const { head } = await (await server.peer(epoch - 1)).hello();
    expect(head.epoch).toBe(epoch);
    ids.add(head.journalId);
    await bridge.stop();
  }
  expect(ids.size).toBe(1);
});

test("a turn is accepted, started, and can be asked about and ended while its CLI is not ready", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("turn.submit", submission(1))).toEqual({});
  await until("the process", () => events(peer).some(({ type }) => type === "member.process"));
  expect(await peer.request("turn.recover", question(1))).toEqual({ state: "active" });
  expect(await peer.request("turn.abort", { turn: "t-1" })).toEqual({});
  const end = await until("the end", () => events(peer).find((event) => event.type === "turn.ended"));
  expect(end.settlement).toMatchObject({ outcome: "not_sent", settled: false });
  expect(await peer.request("turn.recover", question(1))).toEqual({ state: "ended" });
  expect(await peer.request("turn.submit", submission(1))).toBe("TURN_NUMBER_USED");
  expect(await peer.request("turn.abort", { turn: "t-1" })).toBe("ABORT_NO_TURN");
});

test("never_received is journaled before it is answered, and that turn is refused from then on", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("turn.recover", question(1))).toEqual({ state: "never_received" });
  expect(journaled(config)).toEqual([{ type: "turn.vetoed", member: "m-1", turn: "t-1" }]);
  expect(await peer.request("turn.submit", submission(1))).toBe("TURN_VETOED");
  expect(await peer.request("turn.submit", submission(2))).toEqual({});
});

test("an accepted number whose turn is no longer known is forgotten, not never received", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("turn.submit", submission(5))).toEqual({});
  expect(await peer.request("turn.recover", { turn: "t-4", member: "m-1", number: 4, launch: null })).toEqual(
    {
      state: "forgotten",
    },
  );
});

test("a request that does not fit its schema, and a method that is not known, are refused", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("turn.submit", { ...submission(1), number: -1 })).toBe("REQUEST_INVALID");
  expect(await peer.request("turn.else" as "turn.abort", {})).toBe("METHOD_UNKNOWN");
});

test("a stop ends turns and processes and hands the last events over", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  const { bridge, broken } = await begin(config);
  const peer = await taken(server);
  await peer.request("turn.submit", submission(1));
  const slot = await openSlot(config, "m-1");
  await until("the process", async () => (await listSlot(slot.mark)).length > 0);
  await within("the stop", bridge.stop());
  expect(events(peer).at(-1)?.type).toMatch(/turn\.ended|member\.process/);
  expect(events(peer).find((event) => event.type === "turn.ended")).toMatchObject({
    settlement: { outcome: "not_sent" },
  });
  expect(await listSlot(slot.mark)).toEqual([]);
  expect(await peer.closed()).toBe(1000);
  expect(broken).toEqual([]);
  const { records } = readRecords(readFileSync(join(config.stateDirectory, "journal")));
  expect(records.findLast((record) => record.t === "acked")).toEqual({ t: "acked", seq: peer.applied });
});

test("what a stop could not hand over comes again in the next life", async () => {
  const config = configOf();
  const { bridge } = await begin(config);
  await bridge.stop();
  const server = await controllerOf(config);
  const second = await begin(config);
  const peer = await taken(server, 0, false);
  await peer.request("turn.recover", question(1));
  await until("the veto", () => peer.applied === 1);
  peer.terminate();
  await second.bridge.stop();
  await begin(config);
  const next = await taken(server, server.peers.length);
  await until("the veto again", () => events(next).some(({ type }) => type === "turn.vetoed"));
});

test("turns that an earlier life left open are concluded, and what still worked on them is ended first", async () => {
  const earlier = configOf();
  const server = await controllerOf(earlier);
  await begin(earlier);
  const peer = await taken(server, 0, false);
  await peer.request("turn.submit", submission(1));

  // The next life finds the journal as it is now, and a process in the slot: as if the first had died without a word.
  const config = configOf();
  mkdirSync(config.stateDirectory);
  copyFileSync(join(earlier.stateDirectory, "journal"), join(config.stateDirectory, "journal"));
  const slot = await openSlot(config, "m-1");
  onTestFinished(async () => {
    await reapSlot(slot.mark, realClock, 5000);
  });
  await startProcess({
    command: standIn("ignores-sigterm.ts"),
    slot,
    environment: { PATH: "/usr/bin:/bin" },
    generation: 1,
    clock: realClock,
  });
  const next = await controllerOf(config);
  await begin(config);
  expect(await listSlot(slot.mark)).toEqual([]);
  const nextPeer = await taken(next);
  const end = await until("the end", () => events(nextPeer).find((event) => event.type === "turn.ended"));
  expect(end).toMatchObject({
    turn: "t-1",
    settlement: { outcome: "not_sent", error: { code: "BRIDGE_GONE" } },
  });
  expect(await nextPeer.request("turn.recover", question(1))).toEqual({ state: "ended" });
});

test("an idle member is retired when the host asks, and the answer says whether there was a process", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  await begin(config);
  const peer = await taken(server);
  expect(await peer.request("member.retire", { member: "m-1" })).toEqual({ wasResident: false });
  await peer.request("turn.submit", submission(1));
  expect(await peer.request("member.retire", { member: "m-1" })).toBe("MEMBER_BUSY");
  expect(await peer.request("bridge.status", {})).toMatchObject({ members: [] });
});

test("a bridge whose journal can't be opened does not start", async () => {
  await expect(begin({ ...configOf(), stateDirectory: "/dev/null/state" })).rejects.toBeInstanceOf(Error);
});

test("each life answers the challenge with how the one before it ended", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  const asked = async (at: number) => {
    const answer = await (await taken(server, at)).request("bridge.challenge", { nonce: DIGEST_A });
    return (answer as Result<"bridge.challenge">).earlierEnd;
  };
  const first = await begin(config);
  expect(await asked(0)).toBe("none");
  await first.bridge.stop();
  const second = await begin(config);
  expect(await asked(1)).toBe("clean");
  // As if this life had ended without a word: the next one finds the journal as it is now.
  const copy = configOf();
  mkdirSync(copy.stateDirectory);
  copyFileSync(join(config.stateDirectory, "journal"), join(copy.stateDirectory, "journal"));
  const other = await controllerOf(copy);
  await begin(copy);
  const peer = await taken(other);
  expect(await peer.request("bridge.challenge", { nonce: DIGEST_A })).toMatchObject({
    earlierEnd: "unclean",
  });
  await second.bridge.stop();
});

test("a stop empties a slot that has no resident process, and leaves its mark behind everything else", async () => {
  const config = configOf();
  const server = await controllerOf(config);
  const { bridge } = await begin(config);
  const peer = await taken(server);
  await peer.request("turn.submit", submission(1));
  const slot = await openSlot(config, "m-1");
  await until("the process", async () => (await listSlot(slot.mark)).length > 0);
  await peer.request("turn.abort", { turn: "t-1" });
  await until("the end", () => events(peer).find((event) => event.type === "turn.ended"));
  await until("an empty slot", async () => (await listSlot(slot.mark)).length === 0);
  const left = await startProcess({
    command: standIn("ignores-sigterm.ts"),
    slot,
    environment: { PATH: "/usr/bin:/bin" },
    generation: 9,
    clock: realClock,
  });
  expect(left.hasExited()).toBe(false);
  await within("the stop", bridge.stop());
  expect(await listSlot(slot.mark)).toEqual([]);
  const { records } = readRecords(readFileSync(join(config.stateDirectory, "journal")));
  expect(records.at(-1)).toEqual({ t: "stopped" });
});

test("a stop without a controller does not wait for one", async () => {
  const config = configOf();
  const { bridge } = await begin(config);
  const startMs = performance.now();
  await bridge.stop();
  expect(performance.now() - startMs).toBeLessThan(1500);
});
