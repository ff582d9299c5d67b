import { expect, test } from "vitest";
import { decode, encode } from "../../protocol/codec.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Frame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Link, memoryLinks, socketLink } from "../../protocol/link.ts";
import { settled } from "../support/fake-clock.ts";
import { FakeSocket } from "../support/fake-socket.ts";
import { FRAME_OF } from "../support/samples.ts";

const ping = (n: number): Frame => ({ kind: "ping", n });

/** Starts a link and keeps everything that it reports, in one order. */
function listen(link: Link) {
  const seen = {
    frames: [] as Frame[],
    closes: [] as Array<string | null>,
    order: [] as string[],
  };
  link.start({
    onFrames(frames) {
      seen.frames.push(...frames);
      seen.order.push(...frames.map((frame) => frame.kind));
    },
    onClose(cause) {
      seen.closes.push(cause === null ? null : cause.code);
      seen.order.push("close");
    },
  });
  return seen;
}

test("a memory pair carries frames in order, both ways, at a later turn", async () => {
  const [a, b] = memoryLinks();
  const atA = listen(a);
  const atB = listen(b);
  a.send([ping(1), ping(2)]);
  b.send([ping(7)]);
  a.send([ping(3)]);
  expect(atB.frames).toEqual([]);
  await settled();
  expect(atB.frames).toEqual([ping(1), ping(2), ping(3)]);
  expect(atA.frames).toEqual([ping(7)]);
});

test("a memory pair keeps frames for an end that starts later", async () => {
  const [a, b] = memoryLinks();
  a.send([ping(1)]);
  a.send([ping(2)]);
  await settled();
  const atB = listen(b);
  await settled();
  expect(atB.frames).toEqual([ping(1), ping(2)]);
});

test("a memory pair tells both ends of the close once, with its cause, and nothing goes out after it", async () => {
  const [a, b] = memoryLinks();
  const atA = listen(a);
  const atB = listen(b);
  a.close(new HoldfastError("FENCED"));
  b.close(null);
  a.send([ping(1)]);
  b.send([ping(2)]);
  await settled();
  expect(atA.order).toEqual(["close"]);
  expect(atB.order).toEqual(["close"]);
  expect([atA.closes, atB.closes]).toEqual([["FENCED"], ["FENCED"]]);
});

test("frames sent before the close arrive before it, and none after it", async () => {
  const [a, b] = memoryLinks();
  const atA = listen(a);
  const atB = listen(b);
  b.send([ping(9)]);
  a.send([ping(1)]);
  a.close(null);
  await settled();
  expect(atB.order).toEqual(["ping", "close"]);
  expect(atA.order).toEqual(["close"]);
});

test("an end of a memory pair that starts after the close is told of it", async () => {
  const [a, b] = memoryLinks();
  a.close(new HoldfastError("STOPPED"));
  const atB = listen(b);
  await settled();
  expect(atB.closes).toEqual(["STOPPED"]);
});

test("a memory pair passes only what is legal on the wire", () => {
  const [a] = memoryLinks();
  expect(() => a.send([{ ...FRAME_OF.snapshot, text: "€".repeat(LIMITS.messageBytes / 3) }])).toThrowError(
    expect.objectContaining({ code: "FRAME_TOO_LARGE" }),
  );
});

test("a socket's link sends what its codec says, and an empty batch not at all", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  link.send([]);
  link.send([ping(1), ping(2)]);
  expect(socket.sent).toEqual([encode([ping(1), ping(2)])]);
  socket.bufferedAmount = 77;
  expect(link.bufferedBytes()).toBe(77);
});

test("a batch beyond one message goes out as several, in order", () => {
  const socket = new FakeSocket();
  const frames = Array.from({ length: LIMITS.framesPerMessage + 1 }, (_, n) => ping(n));
  socketLink(socket).send(frames);
  expect(socket.sent).toHaveLength(2);
  expect(socket.sentFrames()).toEqual(frames);
});

test("a message arrives as its frames, in order, also as bytes inside a larger buffer", () => {
  const socket = new FakeSocket();
  const seen = listen(socketLink(socket));
  socket.receive(Buffer.from(encode([ping(1), ping(2)])));
  socket.receive(encode([ping(3)]));
  expect(seen.frames).toEqual([ping(1), ping(2), ping(3)]);
});

test("frames that came before the start are kept and come first", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  socket.receive(encode([ping(1)]));
  socket.receive(encode([ping(2)]));
  const seen = listen(link);
  socket.receive(encode([ping(3)]));
  expect(seen.frames).toEqual([ping(1), ping(2), ping(3)]);
});

test("messages before the start are kept up to a limit, and beyond it the link closes", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  for (let n = 0; n < LIMITS.earlyMessages; n += 1) socket.receive(encode([ping(n)]));
  expect(socket.closes).toEqual([]);
  socket.receive(encode([ping(0)]));
  expect(socket.closes).toEqual([[4000, "OVERLOADED"]]);
  const seen = listen(link);
  expect(seen.closes).toEqual(["OVERLOADED"]);
});

test("a socket that closed before the start is reported at the start, after its frames", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  socket.receive(encode([ping(1)]));
  socket.hangUp();
  expect(listen(link).order).toEqual(["ping", "close"]);
});

test("a receiver that closes on an early frame is told of the close once, and gets no more", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  socket.receive(encode([ping(1)]));
  socket.receive(encode([ping(2)]));
  const order: string[] = [];
  link.start({
    onFrames(frames) {
      order.push(...frames.map((frame) => (frame.kind === "ping" ? `ping ${frame.n}` : frame.kind)));
      link.close(new HoldfastError("FENCED"));
    },
    onClose: (cause) => order.push(`close ${cause?.code}`),
  });
  expect(order).toEqual(["ping 1", "close FENCED"]);
});

for (const [name, message, isBinary] of [
  ["bytes that are not msgpack", Uint8Array.of(0xc1), true],
  ["an empty message", new Uint8Array(), true],
  ["a frame of an unknown kind", Uint8Array.of(0x91, 0x81, 0xa4, 0x6b, 0x69, 0x6e, 0x64, 0xa1, 0x78), true],
  ["a text message", "ping", false],
  ["bytes marked as text", encode([ping(1)]), false],
  ["fragments", [encode([ping(1)])], true],
] as const) {
  test(`${name} closes the link with a code, once, and nothing after it is read`, () => {
    const socket = new FakeSocket();
    const seen = listen(socketLink(socket));
    socket.receive(message, isBinary);
    socket.receive(encode([ping(1)]));
    socket.receive(message, isBinary);
    socket.hangUp(4000);
    expect(socket.closes).toEqual([[4000, "FRAME_INVALID"]]);
    expect(seen.order).toEqual(["close"]);
    expect(seen.closes).toEqual(["FRAME_INVALID"]);
  });
}

test("a message beyond the size limit closes the link with its own code", () => {
  const socket = new FakeSocket();
  const seen = listen(socketLink(socket));
  socket.receive(new Uint8Array(LIMITS.messageBytes + 1));
  expect(socket.closes).toEqual([[4000, "FRAME_TOO_LARGE"]]);
  expect(seen.closes).toEqual(["FRAME_TOO_LARGE"]);
});

test("a fault of the receiver is not blamed on the frame", () => {
  const socket = new FakeSocket();
  const closes: Array<string | undefined> = [];
  socketLink(socket).start({
    onFrames() {
      throw new TypeError("a mistake in our own code");
    },
    onClose: (cause) => closes.push(cause?.code),
  });
  socket.receive(encode([ping(1)]));
  expect(closes).toEqual(["INTERNAL"]);
  expect(socket.closes).toEqual([[4000, "INTERNAL"]]);
});

test("an error of the receiver that has a code closes the link with it", () => {
  const socket = new FakeSocket();
  socketLink(socket).start({
    onFrames() {
      throw new HoldfastError("FENCED");
    },
    onClose: () => undefined,
  });
  socket.receive(encode([ping(1)]));
  expect(socket.closes).toEqual([[4000, "FENCED"]]);
});

test("closing on purpose is an ordinary close without a cause, reported once", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  const seen = listen(link);
  link.close(null);
  link.close(new HoldfastError("STOPPED"));
  socket.hangUp(1000);
  expect(socket.closes).toEqual([[1000, ""]]);
  expect(seen.closes).toEqual([null]);
});

test("after the close, sending does nothing", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  link.close(null);
  link.send([ping(1)]);
  expect(socket.sent).toEqual([]);
});

test("after the close, frames that still come are dropped", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  const seen = listen(link);
  link.close(null);
  socket.receive(encode([ping(1)]));
  expect(seen.order).toEqual(["close"]);
});

test("a silent peer's socket is also torn down, since it won't answer a closing handshake", () => {
  const silent = new FakeSocket();
  socketLink(silent).close(new HoldfastError("LINK_TIMEOUT"));
  expect([silent.closes, silent.terminations]).toEqual([[[4000, "LINK_TIMEOUT"]], 1]);
  const polite = new FakeSocket();
  socketLink(polite).close(new HoldfastError("STOPPED"));
  expect([polite.closes, polite.terminations]).toEqual([[[4000, "STOPPED"]], 0]);
});

test("the peer's hanging up is reported once, without a cause of ours", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  const seen = listen(link);
  socket.hangUp();
  socket.hangUp();
  link.close(new HoldfastError("STOPPED"));
  expect(seen.closes).toEqual([null]);
  expect(socket.closes).toEqual([]);
});

test("an error of the socket is the cause of the close that follows, and the first one counts", () => {
  const socket = new FakeSocket();
  const seen = listen(socketLink(socket));
  socket.fail(new Error("ECONNRESET"));
  socket.fail(new Error("EPIPE"));
  expect(seen.closes).toEqual([]);
  socket.hangUp();
  expect(seen.closes).toEqual(["LINK_CLOSED"]);
});

test("a send that fails closes the link with a cause, once", () => {
  const socket = new FakeSocket();
  const link = socketLink(socket);
  const seen = listen(link);
  socket.sendError = new Error("EPIPE");
  link.send([ping(1)]);
  link.send([ping(2)]);
  expect(seen.closes).toEqual(["LINK_CLOSED"]);
});

test("two socket links understand one another", () => {
  const [near, far] = [new FakeSocket(), new FakeSocket()];
  const seen = listen(socketLink(far));
  const all = Object.values(FRAME_OF);
  socketLink(near).send(all);
  for (const message of near.sent) far.receive(message);
  expect(seen.frames).toEqual(all);
  expect(near.sent.flatMap(decode)).toEqual(all);
});
