// S24 over real sockets: each of the sixty streams through the relay, its record, and the store's sums; hostile requests too.
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { simpleRig } from "../store/rig.ts";
import { relayRig, send, upstream } from "./rig.ts";
import { KINDS, PLACES, type Shape, stream } from "./streams.ts";

const PATHS: Readonly<Record<ModelProtocol, string>> = {
  "chat-completions": "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages?beta=true",
};
const SHAPES: Shape[] = PLACES.flatMap((place) =>
  KINDS.flatMap((kind) => [true, false].map((done) => ({ place, kind, done }))),
);
const STATES = { same: "known", after: "known", before: "unknown", absent: "unknown", zero: "zero" } as const;

test.for(ModelProtocol.options)(
  "%s: what is recorded of each stream, coded or not, and its sum",
  async (protocol) => {
    const shapes = SHAPES.values();
    let isCoded = false;
    const model = await upstream((call, reply) => {
      call.resume().on("end", () => {
        const shape = shapes.next().value;
        if (shape === undefined) return void reply.writeHead(500).end();
        const text = Buffer.from(stream(protocol, shape));
        const bytes = isCoded ? gzipSync(text) : text;
        const coding = isCoded ? { "content-encoding": "gzip" } : {};
        reply.writeHead(200, { "content-type": "text/event-stream", ...coding });
        reply.write(bytes.subarray(0, bytes.length >> 1), () => reply.end(bytes.subarray(bytes.length >> 1)));
      });
    });
    const rig = await relayRig({ baseUrl: model.url });
    for (const [at] of SHAPES.entries()) {
      isCoded = at % 2 === 1;
      await send(rig.socketPath, { path: PATHS[protocol], body: "{}" });
      // A record is made behind its answer, and that of a coded one a little later.
      await rig.relay.settled();
    }
    expect(rig.records.map(({ call }) => [call.usage.state, call.usageObserved, call.outcome])).toEqual(
      SHAPES.map(({ place }) => [STATES[place], place !== "absent", "completed"]),
    );
    const { store } = simpleRig();
    for (const { call } of rig.records) store.calls.record(call, null);
    const { calls, dueCalls, knownCalls, counters } = store.calls.sums({ sandbox: "box" });
    // Eight that are known, four that are zero, eight that are unknown.
    expect({ calls, dueCalls, knownCalls }).toEqual({ calls: 20, dueCalls: 20, knownCalls: 12 });
    expect(counters.outputTokens).toEqual({ tokens: null, knownTokens: 8 * 15, knownCalls: 12 });
  },
);

test("a request that is nested without end, or no JSON at all, passes and is recorded without a digest", async () => {
  const model = await upstream(
    (call, reply) => void call.resume().on("end", () => reply.writeHead(400).end()),
  );
  const rig = await relayRig({ baseUrl: model.url });
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  const bodies = [`{"messages":[],"x":${deep}}`, deep, "no JSON", ""];
  for (const body of bodies) {
    await send(rig.socketPath, { path: "/v1/messages", body });
    await rig.relay.settled();
  }
  expect(model.seen.map(({ body }) => body.toString())).toEqual(bodies);
  expect(rig.records.map(({ call, digest }) => [call.status, call.model, digest])).toEqual(
    bodies.map(() => [400, null, null]),
  );
  expect(rig.warnings).toEqual([]);
});
