import { expect, test } from "vitest";
import { encode } from "../../protocol/codec.ts";
import { openEndpoint, type PassedFrame } from "../../protocol/endpoint.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Frame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Link, memoryLinks, socketLink } from "../../protocol/link.ts";
import { METHODS, type MethodName, type MethodTable } from "../../protocol/methods.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { FakeSocket } from "../support/fake-socket.ts";
import { DIGEST_A, FRAME_OF, PARAMS, REPORT, RESULTS } from "../support/samples.ts";

/** Answers everything with a fitting sample. */
const ANSWERS: MethodTable = {
  "bridge.challenge": async () => RESULTS["bridge.challenge"],
  "bridge.status": async () => RESULTS["bridge.status"],
  "turn.submit": async () => RESULTS["turn.submit"],
  "turn.abort": async () => RESULTS["turn.abort"],
  "turn.recover": async () => RESULTS["turn.recover"],
  "permission.answer": async () => RESULTS["permission.answer"],
  "question.answer": async () => RESULTS["question.answer"],
  "member.retire": async () => RESULTS["member.retire"],
  "member.fork": async () => RESULTS["member.fork"],
};

/** An endpoint over this link, with what it passed on and how it closed. */
function open(link: Link, clock: FakeClock, methods: MethodTable | null = null) {
  const passed: PassedFrame[] = [];
  const closes: Array<string | null> = [];
  const endpoint = openEndpoint({
    link,
    clock,
    methods,
    onFrames: (frames) => passed.push(...frames),
    onClose: (cause) => closes.push(cause?.code ?? null),
  });
  return { endpoint, passed, closes };
}

/** A side that asks and a side that answers, on one clock. */
function pair(methods: MethodTable | null = ANSWERS) {
  const clock = new FakeClock();
  const [near, far] = memoryLinks();
  return { clock, asking: open(near, clock), answering: open(far, clock, methods) };
}

/** A side that asks, and a peer that the test plays frame by frame. */
function alone(methods: MethodTable | null = null) {
  const clock = new FakeClock();
  const socket = new FakeSocket();
  const side = open(socketLink(socket), clock, methods);
  const receive = (...frames: Frame[]) => socket.receive(encode(frames));
  return { clock, socket, receive, ...side };
}

/** How a request ended: its code, or its result. */
async function ending(request: Promise<unknown>): Promise<unknown> {
  try {
    return await request;
  } catch (error) {
    return error instanceof HoldfastError ? error.code : error;
  }
}

for (const method of Object.keys(METHODS) as MethodName[]) {
  test(`${method} is asked with its params and answered with its result`, async () => {
    const asked: unknown[] = [];
    const answer = async (params: unknown): Promise<never> => {
      asked.push(params);
      return RESULTS[method] as never;
    };
    const { asking } = pair({ ...ANSWERS, [method]: answer });
    expect(await asking.endpoint.request(method, PARAMS[method])).toEqual(RESULTS[method]);
    expect(asked).toEqual([PARAMS[method]]);
  });
}

test("replies find their requests, in whatever order they come", async () => {
  const { endpoint, socket, receive } = alone();
  const first = endpoint.request("member.retire", { member: "m-1" });
  const second = endpoint.request("turn.recover", PARAMS["turn.recover"]);
  const [one, two] = socket.sentFrames();
  expect([one, two]).toMatchObject([{ method: "member.retire" }, { method: "turn.recover" }]);
  const ids = [one, two].map((frame) => (frame?.kind === "request" ? frame.id : -1));
  receive(
    { kind: "response", id: ids[1] ?? -1, result: { state: "ended" }, error: null },
    { kind: "response", id: ids[0] ?? -1, result: { wasResident: true }, error: null },
  );
  expect(await first).toEqual({ wasResident: true });
  expect(await second).toEqual({ state: "ended" });
});

test("a reply that nobody asked for, or that comes twice, changes nothing", async () => {
  const { endpoint, receive, closes } = alone();
  const request = endpoint.request("member.retire", { member: "m-1" });
  receive({ kind: "response", id: 99, result: {}, error: null });
  receive({ kind: "response", id: 1, result: { wasResident: true }, error: null });
  receive({ kind: "response", id: 1, result: { wasResident: false }, error: null });
  expect(await request).toEqual({ wasResident: true });
  expect(closes).toEqual([]);
});

test("an error with a code crosses the wire with code, message and details, and without its stack", async () => {
  const refusal = new HoldfastError("MEMBER_BUSY", "turn t-9 is active", {
    details: { turn: "t-9" },
    cause: new Error("/root/secret"),
  });
  const { asking } = pair({ ...ANSWERS, "turn.submit": () => Promise.reject(refusal) });
  const error = await asking.endpoint.request("turn.submit", PARAMS["turn.submit"]).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(HoldfastError);
  expect(error).toMatchObject({
    code: "MEMBER_BUSY",
    message: "turn t-9 is active",
    details: { turn: "t-9" },
  });
  expect((error as HoldfastError).cause).toBeUndefined();
});

test("any other error of a method becomes INTERNAL without its text, thrown at once or later", async () => {
  const { asking } = pair({
    ...ANSWERS,
    "turn.abort": () => Promise.reject(new Error("password=hunter2")),
    "member.retire": () => {
      throw new TypeError("/root/secret");
    },
  });
  for (const method of ["turn.abort", "member.retire"] as const) {
    const error = await asking.endpoint.request(method, PARAMS[method] as never).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "INTERNAL", message: "A fault of Holdfast itself.", details: {} });
  }
});

test("a request that is not answered in time is settled once, and its late reply is ignored", async () => {
  const { clock, endpoint, receive } = alone();
  const request = ending(endpoint.request("member.retire", { member: "m-1" }, 3000));
  const other = ending(endpoint.request("turn.abort", { turn: "t-1" }, 4000));
  clock.advance(3000);
  expect(await request).toBe("LINK_TIMEOUT");
  receive({ kind: "response", id: 1, result: { wasResident: true }, error: null });
  receive({ kind: "response", id: 2, result: {}, error: null });
  expect(await other).toEqual({});
});

test("the usual limit of a request is the documented one", async () => {
  const { clock, endpoint, receive } = alone();
  let isSettled = false;
  const request = ending(endpoint.request("turn.abort", { turn: "t-1" })).finally(() => {
    isSettled = true;
  });
  for (let ms = 0; ms < LIMITS.requestMs - 1000; ms += 1000) {
    await clock.elapse(1000);
    receive({ kind: "pong", n: 1 });
  }
  await clock.elapse(999);
  expect(isSettled).toBe(false);
  await clock.elapse(1);
  expect(await request).toBe("LINK_TIMEOUT");
});

test("after a freeze, a reply that was waiting to be read counts before the time limit", async () => {
  const { clock, endpoint, receive } = alone();
  const request = ending(endpoint.request("member.retire", { member: "m-1" }, 1000));
  clock.freeze(3000, () => receive({ kind: "response", id: 1, result: { wasResident: true }, error: null }));
  expect(await request).toEqual({ wasResident: true });
});

test("closing the link rejects everything pending with its cause, and tells of the close afterwards", async () => {
  const { clock, socket, endpoint } = alone();
  const requests = [
    ending(endpoint.request("turn.abort", { turn: "t-1" })),
    ending(endpoint.request("bridge.status", {})),
  ];
  endpoint.close(new HoldfastError("FENCED"));
  expect(await Promise.all(requests)).toEqual(["FENCED", "FENCED"]);
  expect(socket.closes).toEqual([[4000, "FENCED"]]);
  expect(clock.pending, "no timer is left").toBe(0);
});

test("a peer that hangs up rejects everything pending as LINK_CLOSED", async () => {
  const { clock, socket, endpoint, closes } = alone();
  const request = ending(endpoint.request("turn.abort", { turn: "t-1" }));
  socket.hangUp();
  socket.hangUp();
  expect(await request).toBe("LINK_CLOSED");
  expect(closes).toEqual([null]);
  expect(clock.pending).toBe(0);
});

test("a request after the close is refused at once", async () => {
  const { clock, endpoint, socket } = alone();
  endpoint.close(null);
  expect(await ending(endpoint.request("bridge.status", {}))).toBe("LINK_CLOSED");
  expect(socket.sent).toEqual([]);
  expect(clock.pending).toBe(0);
});

test("a link that was closed before the endpoint opened is reported like any other", async () => {
  const clock = new FakeClock();
  const [near, far] = memoryLinks();
  far.close(new HoldfastError("STOPPED"));
  const { endpoint, closes } = open(near, clock);
  await settled();
  expect(closes).toEqual(["STOPPED"]);
  expect(await ending(endpoint.request("bridge.status", {}))).toBe("LINK_CLOSED");
  expect(clock.pending).toBe(0);
});

test("a reply that comes after its asker is gone has no effect", async () => {
  let answer: (result: { wasResident: boolean }) => void = () => undefined;
  const { asking, answering } = pair({
    ...ANSWERS,
    "member.retire": () => new Promise((resolve) => (answer = resolve)),
  });
  const request = ending(asking.endpoint.request("member.retire", { member: "m-1" }));
  await settled();
  asking.endpoint.close(null);
  answer({ wasResident: true });
  await settled();
  expect(await request).toBe("LINK_CLOSED");
  expect(answering.closes).toEqual([null]);
});

test("more requests than the limit are refused, until one is settled", async () => {
  const { clock, endpoint, receive } = alone();
  const requests = Array.from({ length: LIMITS.pendingRequests }, () =>
    ending(endpoint.request("bridge.status", {})),
  );
  expect(await ending(endpoint.request("bridge.status", {}))).toBe("OVERLOADED");
  receive({ kind: "response", id: 1, result: RESULTS["bridge.status"], error: null });
  requests.push(ending(endpoint.request("bridge.status", {})));
  endpoint.close(null);
  const ended = await Promise.all(requests);
  expect(ended[0]).toEqual(RESULTS["bridge.status"]);
  expect(ended.slice(1)).toEqual(Array(LIMITS.pendingRequests).fill("LINK_CLOSED"));
  expect(clock.pending).toBe(0);
});

for (const method of ["turn.dance", "constructor", "__proto__", "toString", ""]) {
  test(`the method "${method}" is unknown, and said to be`, async () => {
    const { receive, socket } = alone(ANSWERS);
    receive({ kind: "request", id: 5, method, params: {} });
    await settled();
    expect(socket.sentFrames()).toMatchObject([
      { kind: "response", id: 5, result: null, error: { code: "METHOD_UNKNOWN" } },
    ]);
  });
}

test("a side that only asks knows no method", async () => {
  const { receive, socket } = alone(null);
  receive({ kind: "request", id: 5, method: "bridge.status", params: {} });
  await settled();
  expect(socket.sentFrames()).toMatchObject([{ id: 5, error: { code: "METHOD_UNKNOWN" } }]);
});

for (const [params, where] of [
  [{ turn: "t-1", member: "../m", number: 3 }, "member"],
  [{ turn: "t-1", member: "m-1" }, "number"],
  [null, "params"],
  [[], "turn"],
] as const) {
  test(`params that don't fit (${JSON.stringify(params)}) are refused with the field's name, and never run`, async () => {
    const never = () => expect.unreachable();
    const { receive, socket } = alone({ ...ANSWERS, "turn.recover": never });
    receive({ kind: "request", id: 5, method: "turn.recover", params });
    await settled();
    const [response] = socket.sentFrames();
    expect(response).toMatchObject({ id: 5, error: { code: "REQUEST_INVALID" } });
    expect(JSON.stringify(response)).toContain(where);
    expect(JSON.stringify(response)).not.toContain("../m");
  });
}

test("unknown fields of params and of a result are ignored", async () => {
  const asked: unknown[] = [];
  const { receive, socket, endpoint } = alone({
    ...ANSWERS,
    "turn.abort": async (params) => {
      asked.push(params);
      return {};
    },
  });
  receive({ kind: "request", id: 5, method: "turn.abort", params: { turn: "t-1", mood: "fine" } });
  await settled();
  expect(asked).toEqual([{ turn: "t-1" }]);
  expect(socket.sentFrames()).toMatchObject([{ id: 5, error: null }]);
  const request = endpoint.request("member.retire", { member: "m-1" });
  receive({ kind: "response", id: 1, result: { wasResident: true, mood: "fine" }, error: null });
  expect(await request).toEqual({ wasResident: true });
});

test("params that would not fit are refused before they are sent", async () => {
  const { clock, endpoint, socket } = alone();
  expect(await ending(endpoint.request("turn.abort", { turn: "" }))).toBe("REQUEST_INVALID");
  const text = "half a squid: \ud83e";
  const params = { ...PARAMS["turn.submit"], text };
  expect(await ending(endpoint.request("turn.submit", params)), "law 1").toBe("REQUEST_INVALID");
  expect(socket.sent).toEqual([]);
  endpoint.close(null);
  expect(clock.pending).toBe(0);
});

test("a result that does not fit its schema rejects the request and keeps the link", async () => {
  const { endpoint, receive, closes } = alone();
  const request = ending(endpoint.request("member.retire", { member: "m-1" }));
  receive({ kind: "response", id: 1, result: { wasResident: "yes" }, error: null });
  expect(await request).toBe("FRAME_INVALID");
  expect(closes).toEqual([]);
});

test("a result too large for one message is answered with an error instead", async () => {
  const clis = [{ cli: "pi" as const, version: "€".repeat(LIMITS.messageBytes / 3) }];
  const { asking } = pair({ ...ANSWERS, "bridge.challenge": async () => ({ ...REPORT, clis }) });
  expect(await ending(asking.endpoint.request("bridge.challenge", { nonce: DIGEST_A }))).toBe(
    "FRAME_TOO_LARGE",
  );
});

test("a request that can't be encoded rejects, and leaves nothing pending", async () => {
  const clock = new FakeClock();
  const [near] = memoryLinks();
  const refusing: Link = {
    ...near,
    send: () => {
      throw new HoldfastError("FRAME_TOO_LARGE");
    },
  };
  const { endpoint } = open(refusing, clock);
  const before = clock.pending;
  expect(await ending(endpoint.request("bridge.status", {}))).toBe("FRAME_TOO_LARGE");
  expect(clock.pending).toBe(before);
});

test("every other frame is passed on in order, and the endpoint's own kinds are kept", () => {
  const { receive, passed } = alone();
  receive(...Object.values(FRAME_OF));
  const own = ["request", "response", "ping", "pong"];
  expect(passed).toEqual(Object.values(FRAME_OF).filter(({ kind }) => !own.includes(kind)));
});

test("a message of nothing but the endpoint's own frames is not passed on", () => {
  const clock = new FakeClock();
  const socket = new FakeSocket();
  let calls = 0;
  openEndpoint({
    link: socketLink(socket),
    clock,
    methods: null,
    onFrames: () => calls++,
    onClose: () => undefined,
  });
  socket.receive(encode([FRAME_OF.pong, FRAME_OF.ping, FRAME_OF.response]));
  expect(calls).toBe(0);
});

test("frames and buffered bytes are the link's own", () => {
  const { endpoint, socket } = alone();
  endpoint.send([FRAME_OF.ack]);
  socket.bufferedAmount = 12;
  expect(socket.sentFrames()).toEqual([FRAME_OF.ack]);
  expect(endpoint.bufferedBytes()).toBe(12);
});

test("a ping is answered with its own number", () => {
  const { receive, socket } = alone();
  receive({ kind: "ping", n: 41 });
  expect(socket.sentFrames()).toEqual([{ kind: "pong", n: 41 }]);
});

test("a silent link is pinged after one interval", () => {
  const { clock, socket } = alone();
  clock.advance(LIMITS.pingMs - 1);
  expect(socket.sent).toEqual([]);
  clock.advance(1);
  expect(socket.sentFrames()).toEqual([{ kind: "ping", n: 1 }]);
});

test("a link that stays silent for two intervals is ended, and everything pending with it", async () => {
  const { clock, socket, endpoint, closes } = alone();
  const request = ending(endpoint.request("turn.abort", { turn: "t-1" }));
  clock.advance(2 * LIMITS.pingMs - 1);
  expect(closes).toEqual([]);
  clock.advance(1);
  expect(closes).toEqual(["LINK_TIMEOUT"]);
  expect(await request).toBe("LINK_TIMEOUT");
  expect(socket.closes).toEqual([[4000, "LINK_TIMEOUT"]]);
  expect(socket.terminations).toBe(1);
  clock.advance(10 * LIMITS.pingMs);
  expect(clock.pending, "no watch is left").toBe(0);
});

test("whatever arrives keeps the link alive, and a busy link is not pinged", () => {
  const { clock, socket, receive, closes } = alone();
  for (let n = 0; n < 50; n += 1) {
    clock.advance(LIMITS.pingMs - 1);
    receive(FRAME_OF.ack);
  }
  expect(socket.sent).toEqual([]);
  expect(closes).toEqual([]);
});

test("two quiet ends keep one another alive by pings alone", async () => {
  const { clock, asking, answering } = pair();
  await clock.elapse(100 * LIMITS.pingMs);
  expect(asking.closes).toEqual([]);
  expect(answering.closes).toEqual([]);
});

test("a frozen process does not call its peer dead while the peer's bytes wait to be read", () => {
  const { clock, receive, closes, socket } = alone();
  clock.freeze(60_000, () => receive({ kind: "pong", n: 1 }));
  expect(closes).toEqual([]);
  expect(socket.sent, "nor does it ping one that has just spoken").toEqual([]);
  clock.advance(2 * LIMITS.pingMs - 1);
  expect(closes).toEqual([]);
  clock.advance(1);
  expect(closes).toEqual(["LINK_TIMEOUT"]);
});

test("after a freeze with nothing waiting, a peer past its limit is dead", () => {
  const { clock, closes } = alone();
  clock.freeze(60_000, () => undefined);
  expect(closes).toEqual(["LINK_TIMEOUT"]);
});

test("a ping that fails at once closes the link and leaves no watch behind", () => {
  const { clock, socket, closes } = alone();
  socket.sendError = new Error("EPIPE");
  clock.advance(LIMITS.pingMs);
  expect(closes).toEqual(["LINK_CLOSED"]);
  expect(clock.pending).toBe(0);
});

test("the other side's silence is counted from what it sent last, whatever that was", async () => {
  const { clock, receive, endpoint } = alone();
  clock.advance(1200);
  expect(endpoint.silentMs()).toBe(1200);
  receive({ kind: "pong", n: 1 });
  expect(endpoint.silentMs()).toBe(0);
  clock.advance(300);
  endpoint.send([{ kind: "ack", seq: 1 }]);
  expect(endpoint.silentMs()).toBe(300);
});
