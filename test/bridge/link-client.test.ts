import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Journal, openJournal } from "../../bridge/journal.ts";
import { type LinkClient, startLinkClient } from "../../bridge/link-client.ts";
import { createOutbox, type Outbox } from "../../bridge/outbox.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { MethodTable } from "../../protocol/methods.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { keptLog } from "../support/kept-log.ts";
import { type LinkPeer, LinkServer } from "../support/link-server.ts";
import { AT, EVENTS, FRAME_OF, PARAMS, RESULTS } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";

const TOKEN = "0123456789abcdef-token";

interface Scene {
  server: LinkServer;
  journal: Journal;
  outbox: Outbox;
  client: LinkClient;
  clock: FakeClock;
  texts: Map<string, string>;
  calls: string[];
  log: ReturnType<typeof keptLog>;
  /** Moves the clock until the client has made so many links. */
  redials(at: number): Promise<LinkPeer>;
  /** A first link that was taken over. */
  taken(): Promise<LinkPeer>;
}

async function scene(
  options: { isListening?: boolean; methods?: Partial<MethodTable>; path?: string } = {},
): Promise<Scene> {
  const directory = temporaryDirectory();
  const path = options.path ?? join(directory, "ctl.sock");
  const log = keptLog();
  const clock = new FakeClock();
  const server = new LinkServer(path);
  if (options.isListening !== false) await server.listen();
  const journal = await openJournal(join(directory, "journal"), { nowAt: () => AT, log });
  const texts = new Map<string, string>();
  const outbox = createOutbox({
    unacked: () => journal.state.unacked,
    textOf: (_turn, part) => texts.get(part) ?? "",
  });
  const calls: string[] = [];
  const answers = Object.fromEntries(
    Object.entries(RESULTS).map(([name, result]) => [
      name,
      () => {
        calls.push(name);
        return Promise.resolve(result);
      },
    ]),
  ) as unknown as MethodTable;
  const client = startLinkClient({
    socketPath: path,
    sandboxId: "box-1",
    token: TOKEN,
    journal,
    outbox,
    methods: { ...answers, ...options.methods },
    clock,
    log,
    chance: () => 0,
  });
  journal.onDurable(() => client.wake());
  onTestFinished(async () => {
    client.stop();
    await server.close();
    await journal.close();
  });
  const redials = (at: number) =>
    until(`link ${at}`, async () => {
      if (server.peers[at] !== undefined) return server.peers[at];
      clock.advance(25);
      await settled();
      return null;
    });
  return {
    server,
    journal,
    outbox,
    client,
    clock,
    texts,
    calls,
    log,
    redials,
    async taken() {
      const peer = await server.peer(0);
      await peer.hello();
      peer.welcome();
      await until("the take-over", () => log.lines.some(({ what }) => what === "link taken over"));
      return peer;
    },
  };
}

/** Lets the client's next flush run, as often as it takes. */
async function flushed<T>(made: Scene, what: string, look: () => T): Promise<void> {
  await until(what, async () => {
    made.clock.advance(0);
    await settled();
    return look();
  });
}

test("the first frame is hello, with pin, token and the head of the journal", async () => {
  const made = await scene();
  const hello = await (await made.server.peer(0)).hello();
  const { journalId, epoch } = made.journal.state;
  expect(hello).toEqual({
    kind: "hello",
    pin: HELPER_PIN,
    sandboxId: "box-1",
    token: TOKEN,
    head: { journalId, epoch, seq: 0 },
    acked: 0,
    fence: 0,
  });
});

test("nothing is sent and nothing is answered before a controller has taken the link", async () => {
  const made = await scene();
  const peer = await made.server.peer(0);
  await peer.hello();
  await made.journal.append(EVENTS["turn.delivered"]);
  made.client.wake();
  made.clock.advance(0);
  expect(await peer.request("turn.submit", PARAMS["turn.submit"])).toBe("FENCED");
  expect(await peer.request("bridge.status", {})).toBe("FENCED");
  expect(made.calls).toEqual([]);
  expect(peer.of("event")).toEqual([]);
});

test("once taken over it sends from the controller's cursor on and answers", async () => {
  const made = await scene();
  for (let n = 0; n < 3; n += 1) await made.journal.append(EVENTS["turn.delivered"]);
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.welcome(1, 2);
  await until("the event", () => peer.of("event").length === 1);
  expect(peer.of("event")[0]?.entry.seq).toBe(3);
  expect(await peer.request("bridge.challenge", PARAMS["bridge.challenge"])).toEqual(
    RESULTS["bridge.challenge"],
  );
});

test("a request right behind the welcome is answered, although the fence is still being stored", async () => {
  const made = await scene();
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.applied = 0;
  peer.send(
    { kind: "welcome", fence: 4, applied: 0 },
    { kind: "request", id: 900, method: "bridge.status", params: {} },
  );
  const answer = await until("the answer", () => peer.of("response")[0]);
  expect(answer).toMatchObject({ id: 900, error: null });
  expect(made.journal.state.fence).toBe(4);
});

test("a request right behind a welcome with a lower fence is refused and not carried out", async () => {
  const made = await scene();
  await made.journal.takeFence(9);
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.send(
    { kind: "welcome", fence: 8, applied: 0 },
    { kind: "request", id: 900, method: "turn.submit", params: PARAMS["turn.submit"] },
  );
  expect(await peer.closed()).toBe(4000);
  expect(made.calls).toEqual([]);
});

test("a welcome with a lower fence closes the link, and the next one is tried", async () => {
  const made = await scene();
  await made.journal.takeFence(9);
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.welcome(8);
  expect(await peer.closed()).toBe(4000);
  expect(peer.of("event")).toEqual([]);
  const next = await made.redials(1);
  await next.hello();
  next.welcome(9);
  expect(await next.request("bridge.status", {})).toEqual(RESULTS["bridge.status"]);
});

test("a higher fence is durable before the link counts as taken", async () => {
  const made = await scene();
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.welcome(12);
  await until("the take-over", () => made.log.lines.some(({ what }) => what === "link taken over"));
  expect(made.journal.state.fence).toBe(12);
});

test("a second welcome on a link is a fault of the controller", async () => {
  const made = await scene();
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.send({ kind: "welcome", fence: 1, applied: 0 }, { kind: "welcome", fence: 2, applied: 0 });
  expect(await peer.closed()).toBe(4000);
});

test("frames that only a bridge sends are a fault of the controller", async () => {
  for (const kind of ["hello", "event", "delta", "snapshot"] as const) {
    const made = await scene();
    const peer = await made.taken();
    peer.send(FRAME_OF[kind]);
    expect(await peer.closed(), kind).toBe(4000);
  }
});

test("bytes that are no frames close the link", async () => {
  for (const bytes of [Uint8Array.of(0xc1, 0xff), "text"]) {
    const made = await scene();
    const peer = await made.taken();
    peer.sendRaw(bytes);
    expect(await peer.closed()).toBe(4000);
  }
});

test("who did not take the link can't acknowledge: nothing is dropped", async () => {
  const made = await scene();
  await made.journal.append(EVENTS["turn.delivered"]);
  const peer = await made.server.peer(0);
  await peer.hello();
  peer.send({ kind: "ack", seq: 1 });
  expect(await peer.closed()).toBe(4000);
  await made.journal.append(EVENTS["turn.delivered"]);
  expect(made.journal.state.unacked.map(({ seq }) => seq)).toEqual([1, 2]);
});

test("an acknowledgement of what does not exist closes the link and drops nothing", async () => {
  const made = await scene();
  await made.journal.append(EVENTS["turn.delivered"]);
  const peer = await made.taken();
  peer.send({ kind: "ack", seq: 7 });
  expect(await peer.closed()).toBe(4000);
  await made.journal.append(EVENTS["turn.delivered"]);
  expect(made.journal.state.unacked.map(({ seq }) => seq)).toEqual([1, 2]);
});

test("an acknowledged event is let go of in the journal", async () => {
  const made = await scene();
  await made.journal.append(EVENTS["turn.delivered"]);
  const peer = await made.taken();
  await until("the event", () => peer.applied === 1);
  peer.send({ kind: "ack", seq: 1 });
  await until("the journal", () => made.journal.state.unacked.length === 0);
});

test("what comes in one turn of the loop goes out in one message", async () => {
  const made = await scene();
  const peer = await made.taken();
  for (let n = 0; n < 50; n += 1) {
    made.texts.set("p", "x".repeat(n + 1));
    made.outbox.touch("t-1", "p", n);
    made.client.wake();
  }
  await flushed(made, "the text", () => peer.parts.get("p")?.length === 50);
  expect(peer.of("delta")).toHaveLength(1);
});

test("a controller that reads nothing closes the window; what it takes opens it again", async () => {
  const made = await scene();
  const peer = await made.taken();
  const text = "x".repeat(3 * LIMITS.windowBytes);
  made.texts.set("p", text);
  made.outbox.touch("t-1", "p", 0);
  made.client.wake();
  await flushed(made, "the window's text", () => (peer.parts.get("p")?.length ?? 0) >= LIMITS.windowBytes);
  const held = peer.parts.get("p")?.length ?? 0;
  expect(held).toBeLessThan(2 * LIMITS.windowBytes);
  await flushed(made, "all of it", () => {
    peer.send({ kind: "consumed", bytes: peer.consumedBytes });
    return peer.parts.get("p") === text;
  });
});

test("a refused link is dialled again, later each time", async () => {
  const made = await scene();
  const waits: number[] = [];
  for (let at = 0; at < 5; at += 1) {
    const peer = await made.redials(at);
    await peer.hello();
    peer.send({ kind: "refuse", error: { code: "ATTESTATION_FAILED", message: "no", details: {} } });
    await peer.closed();
    await settled();
    const startMs = made.clock.monotonicMs();
    await made.redials(at + 1);
    waits.push(made.clock.monotonicMs() - startMs);
  }
  // With chance 0 half of 50, 100, 200, 400, 800 ms; the clock of this test goes in steps of 25, and a dial takes some.
  expect(waits[0]).toBeLessThan(200);
  expect(waits[4]).toBeGreaterThanOrEqual(400);
  expect(made.log.lines.some(({ what }) => what === "the controller refused the link")).toBe(true);
});

test("as long as nobody listens it dials again, and takes the first that does", async () => {
  const made = await scene({ isListening: false });
  for (let n = 0; n < 20; n += 1) await made.clock.elapse(500);
  await made.server.listen();
  const peer = await made.redials(0);
  expect((await peer.hello()).sandboxId).toBe("box-1");
});

test("after a restart of the controller everything it had not applied comes again, once and in order", async () => {
  const made = await scene();
  for (let n = 0; n < 5; n += 1) await made.journal.append(EVENTS["turn.delivered"]);
  made.texts.set("p", "Größe ");
  made.outbox.touch("t-1", "p", 0);
  const first = await made.taken();
  await until("the events", () => first.applied === 5 && first.parts.get("p") === "Größe ");
  first.send({ kind: "ack", seq: 2 });
  await until("the acknowledgement", () => made.journal.state.acked === 2);
  await made.server.close();
  await first.closed();

  await made.journal.append(EVENTS["turn.waiting"]);
  made.texts.set("p", "Größe 🦑");
  made.outbox.touch("t-1", "p", 6);
  await made.server.listen();
  const second = await made.redials(1);
  const hello = await second.hello();
  expect(hello.head.seq).toBe(6);
  second.welcome(2, 3);
  await until("the rest", () => second.applied === 6);
  expect(second.of("event").map(({ entry }) => entry.seq)).toEqual([4, 5, 6]);
  expect(second.of("snapshot")).toEqual([{ kind: "snapshot", turn: "t-1", part: "p", text: "Größe 🦑" }]);
});

test("a controller that says nothing is left at the handshake's limit, and dialled again", async () => {
  const made = await scene();
  const peer = await made.server.peer(0);
  await peer.hello();
  made.clock.advance(LIMITS.handshakeMs - 1);
  await settled();
  expect(peer.closeCode).toBeNull();
  made.clock.advance(1);
  await peer.closed();
  await (await made.redials(1)).hello();
});

test("a listener that does not speak the protocol is left, and dialled again", async () => {
  const path = join(temporaryDirectory(), "ctl.sock");
  let connections = 0;
  const stranger = createServer((socket) => {
    connections += 1;
    socket.on("error", () => undefined);
    socket.resume();
    socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  });
  await new Promise<void>((resolve) => stranger.listen(path, resolve));
  onTestFinished(() => new Promise((resolve) => stranger.close(() => resolve())));
  const made = await scene({ isListening: false, path });
  await until("three dials", async () => {
    await made.clock.elapse(500);
    return connections >= 3;
  });
  expect(made.calls).toEqual([]);
});

test("a stop closes the link, and no new one is made", async () => {
  const made = await scene();
  const peer = await made.taken();
  made.client.stop();
  expect(await peer.closed()).toBe(1000);
  for (let n = 0; n < 10; n += 1) await made.clock.elapse(5000);
  expect(made.server.peers).toHaveLength(1);
});

test("a stop while it dials leaves no link behind", async () => {
  const made = await scene();
  made.client.stop();
  for (let n = 0; n < 20; n += 1) await made.clock.elapse(100);
  await until("whatever came is closed", () =>
    made.server.peers.every(({ closeCode }) => closeCode !== null),
  );
  expect(made.server.peers.flatMap((peer) => peer.of("hello"))).toEqual([]);
});

test("an error of a method reaches the controller by its code, others without their text", async () => {
  const made = await scene({
    methods: {
      "turn.abort": () => Promise.reject(new HoldfastError("ABORT_NO_TURN")),
      "member.retire": () => Promise.reject(new Error("secret path /root")),
    },
  });
  const peer = await made.taken();
  expect(await peer.request("turn.abort", PARAMS["turn.abort"])).toBe("ABORT_NO_TURN");
  expect(await peer.request("member.retire", PARAMS["member.retire"])).toBe("INTERNAL");
  expect(JSON.stringify(peer.frames)).not.toContain("secret");
});

test("the token is in the hello and in no line of the log", async () => {
  const made = await scene();
  await made.taken();
  expect(JSON.stringify(made.log.lines)).not.toContain(TOKEN);
});
