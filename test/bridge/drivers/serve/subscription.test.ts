import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { realClock } from "../../../../bridge/clock.ts";
import { loopbackServer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import { openSubscription, type Subscription } from "../../../../bridge/drivers/serve/subscription.ts";
import { type Handler, httpServer } from "./local-server.ts";

interface Bench {
  subscription: Subscription;
  events: NativeEvent[];
  losses: string[];
  lost: Promise<string>;
}

async function open(handler: Handler, limits: { openMs?: number; silenceMs?: number } = {}): Promise<Bench> {
  const http = loopbackServer(await httpServer(handler), "u", "p");
  const events: NativeEvent[] = [];
  const losses: string[] = [];
  let tell: (reason: string) => void = () => undefined;
  const lost = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const subscription = await openSubscription({
    http,
    directory: "/w s",
    number: 7,
    clock: realClock,
    openMs: limits.openMs ?? 1000,
    silenceMs: limits.silenceMs ?? 5000,
    onEvent: (event) => events.push(event),
    onLost(reason) {
      losses.push(reason);
      tell(reason);
    },
  });
  onTestFinished(() => {
    subscription.close();
    http.close();
  });
  return { subscription, events, losses, lost };
}

const CONNECTED = `data: {"type":"server.connected","properties":{}}\n\n`;
const IDLE = `data: {"type":"session.idle","properties":{"sessionID":"ses_1"}}\n\n`;
const DISPOSED = `data: {"type":"server.instance.disposed","properties":{"directory":"/w s"}}\n\n`;

const stream =
  (script: (response: ServerResponse) => void): Handler =>
  (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(CONNECTED);
    script(response);
  };

test("it is live once the server has said `connected`, and asks for its own directory", async () => {
  let url = "";
  const { subscription } = await open((request, response) => {
    url = request.url ?? "";
    stream(() => undefined)(request, response);
  });
  expect(url).toBe("/event?directory=%2Fw%20s");
  expect(subscription.isLive()).toBe(true);
  expect(subscription.number).toBe(7);
});

test.each<[string, Handler, RegExp]>([
  ["an error", (_, response) => response.writeHead(503).end(), /answered 503/],
  [
    "a page",
    (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
    /text\/html/,
  ],
  ["silence", () => undefined, /not connected within/],
  [
    "an end",
    (_, response) => response.writeHead(200, { "content-type": "text/event-stream" }).end(),
    /ended/,
  ],
  ["a reset", (request) => request.socket.resetAndDestroy(), /can't be opened/],
  [
    "events without `connected`",
    (_, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(IDLE);
    },
    /not connected within/,
  ],
])("%s in place of a stream is STREAM_LOST", async (_what, handler, reason) => {
  await expect(open(handler, { openMs: 100 })).rejects.toMatchObject({
    code: "STREAM_LOST",
    message: expect.stringMatching(reason),
  });
});

test("nobody on the port is STREAM_LOST", async () => {
  const http = loopbackServer(1, "u", "p");
  const opening = openSubscription({
    http,
    directory: "/",
    number: 1,
    clock: realClock,
    openMs: 500,
    silenceMs: 500,
    onEvent: () => undefined,
    onLost: () => expect.unreachable(),
  });
  await expect(opening).rejects.toMatchObject({ code: "STREAM_LOST" });
});

test("P2: a clean end is a loss, reported once", async () => {
  const { subscription, lost, losses } = await open(stream((response) => response.end(IDLE)));
  expect(await lost).toBe("the stream ended");
  expect(subscription.isLive()).toBe(false);
  subscription.close();
  expect(losses).toHaveLength(1);
});

test("a reset is a loss", async () => {
  let reset: () => void = () => undefined;
  const { lost } = await open(
    stream((response) => {
      reset = () => response.socket?.resetAndDestroy();
    }),
  );
  reset();
  expect(await lost).toMatch(/the stream (was cut|broke)/);
});

test("disposal of the instance is a loss, before the stream itself ends", async () => {
  const { lost } = await open(stream((response) => response.write(DISPOSED)));
  expect(await lost).toMatch(/disposed/);
});

test("`connected` and the loss in one chunk: it opens, and is lost, and nobody takes it for live", async () => {
  const { subscription, lost } = await open((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(CONNECTED + DISPOSED);
  });
  expect(await lost).toMatch(/disposed/);
  expect(subscription.isLive()).toBe(false);
});

test("P1: silence of bytes past the limit is a loss", async () => {
  const { lost } = await open(
    stream(() => undefined),
    { silenceMs: 100 },
  );
  expect(await lost).toMatch(/no byte for \d+ ms/);
});

test("P4: comments are bytes: a quiet stream with them lives; when they stop it is lost", async () => {
  let beats = 0;
  let isOver: () => void = () => undefined;
  const after = new Promise<void>((resolve) => {
    isOver = resolve;
  });
  const { losses, lost, events } = await open(
    stream((response) => {
      const timer = setInterval(() => {
        beats += 1;
        if (beats <= 10) response.write(": heartbeat\n\n");
        else {
          clearInterval(timer);
          expect(losses).toEqual([]);
          isOver();
        }
      }, 50);
      response.once("close", () => clearInterval(timer));
    }),
    { silenceMs: 150 },
  );
  await after;
  expect(await lost).toMatch(/no byte/);
  expect(events).toEqual([]);
});

test("what can't be read is a loss: no JSON, or a known event with another shape", async () => {
  for (const data of ["{", `{"type":"session.idle","properties":{}}`]) {
    const { lost } = await open(stream((response) => response.write(`data: ${data}\n\n`)));
    expect(await lost).toMatch(/an event/);
  }
});

test("P25: a byte at a time, with every kind of line end, the events are the same", async () => {
  const text = `{"type":"tui.toast.show","properties":{"message":"é € 🦑"}}`;
  for (const end of ["\n", "\r\n", "\r"]) {
    let isSent: () => void = () => undefined;
    const sent = new Promise<void>((resolve) => {
      isSent = resolve;
    });
    const { events, subscription } = await open(
      stream((response) => {
        const bytes = Buffer.from(`data: ${text.slice(0, 1)}${end}data: ${text.slice(1)}${end}${end}${IDLE}`);
        const next = (at: number): void => {
          if (at === bytes.length) return isSent();
          response.write(bytes.subarray(at, at + 1), () => setImmediate(next, at + 1));
        };
        next(0);
      }),
    );
    await sent;
    await expect.poll(() => events.length).toBe(2);
    expect(events[0]?.properties).toEqual({ message: "é € 🦑" });
    expect(subscription.sequence()).toBe(3);
  }
});

test("P26: lines that end in CR LF, and in a mixture, are the same event wherever the bytes are cut", async () => {
  const [one, two] = [`{"type":"tui.toast.show",`, `"properties":{"message":"é € 🦑"}}`];
  const forms = [
    `data: ${one}\r\ndata: ${two}\r\n\r\n`,
    `data: ${one}\ndata: ${two}\r\n\n`,
    `data: ${one}\rdata: ${two}\r\n\r`,
  ].map((text) => Buffer.from(`${text}${IDLE}`));
  const cuts = forms.flatMap((bytes) => Array.from(bytes, (_, at) => [bytes, at] as const));
  let served = 0;
  const port = await httpServer((request, response) => {
    const [bytes = Buffer.alloc(0), at = 0] = cuts[served] ?? [];
    served += 1;
    stream(() => {
      response.write(bytes.subarray(0, at), () => setImmediate(() => response.write(bytes.subarray(at))));
    })(request, response);
  });
  const http = loopbackServer(port, "u", "p");
  onTestFinished(() => http.close());
  for (const [, at] of cuts) {
    const events: NativeEvent[] = [];
    let losses = 0;
    let isWhole: () => void = () => undefined;
    const whole = new Promise<void>((resolve) => {
      isWhole = resolve;
    });
    const subscription = await openSubscription({
      http,
      directory: "/",
      number: 1,
      clock: realClock,
      openMs: 1000,
      silenceMs: 5000,
      onEvent(event) {
        events.push(event);
        if (event.type === "session.idle") isWhole();
      },
      onLost: () => {
        losses += 1;
        isWhole();
      },
    });
    await whole;
    subscription.close();
    expect(losses, `cut at ${at}`).toBe(0);
    expect(
      events.map(({ type }) => type),
      `cut at ${at}`,
    ).toEqual(["tui.toast.show", "session.idle"]);
    expect(events[0]?.properties).toEqual({ message: "é € 🦑" });
  }
});

test("P27: one event of 11 MB is read, and the small ones behind it", async () => {
  const message = "x".repeat(11 * 1024 * 1024);
  const { events, losses } = await open(
    stream((response) =>
      response.write(
        `data: ${JSON.stringify({ type: "tui.toast.show", properties: { message } })}\n\n${IDLE}`,
      ),
    ),
  );
  await expect.poll(() => events.length, { timeout: 10_000 }).toBe(2);
  expect(events[0]).toMatchObject({ properties: { message } });
  expect(losses).toEqual([]);
});

test("P27: a line that never ends is a loss at its limit, and is not kept on being read", async () => {
  let written = 0;
  const chunk = Buffer.alloc(1024 * 1024, "x");
  const { lost } = await open(
    stream((response) => {
      const more = () => {
        if (response.destroyed) return;
        written += chunk.length;
        // A turn of the loop between two: a socket that is gone calls back at once.
        response.write(chunk, () => setImmediate(more));
      };
      response.write("data: ");
      more();
    }),
  );
  expect(await lost).toMatch(/exceeds \d+ characters/);
  const atLoss = written;
  await new Promise((resolve) => setImmediate(resolve));
  // What was on its way in the sockets' own buffers may still be counted.
  expect(written - atLoss).toBeLessThan(16 * chunk.length);
});

test("P5: nothing of the HTTP client's own ends a stream that is silent, or a call that is late", async () => {
  const port = await httpServer((request, response) => {
    if (request.url?.startsWith("/event") === true) stream(() => undefined)(request, response);
    else setTimeout(() => response.writeHead(200, { "content-type": "application/json" }).end("true"), 300);
  });
  const http = loopbackServer(port, "u", "p");
  onTestFinished(() => http.close());
  const request = http.open("/event?directory=%2F");
  const response = await new Promise<IncomingMessage>((resolve) => {
    request.once("response", resolve).end();
  });
  // A timeout of the client's would be set on its socket; 0 is none.
  expect(request.socket?.timeout ?? 0).toBe(0);
  expect(response.socket.timeout ?? 0).toBe(0);
  request.destroy();
  // Only the limit that we name ourselves decides.
  for (const ownSocket of [true, false]) {
    const late = await http.ask({ method: "POST", path: "/late", body: {}, limitMs: 20_000, ownSocket });
    expect(late.status).toBe(200);
  }
});

test("noise counts in the sequence and is handed to nobody", async () => {
  const { events, subscription } = await open(
    stream((response) => response.write(`data: {"type":"plugin.added","properties":{}}\n\n${IDLE}`)),
  );
  await expect.poll(() => events.length).toBe(1);
  expect(subscription.sequence()).toBe(3);
});

test("closed on purpose it is not lost, and hands on nothing more", async () => {
  let send: () => void = () => undefined;
  const { subscription, events, losses } = await open(
    stream((response) => {
      send = () => response.write(IDLE);
    }),
  );
  subscription.close();
  send();
  await new Promise((resolve) => setImmediate(resolve));
  expect(subscription.isLive()).toBe(false);
  expect([events, losses]).toEqual([[], []]);
});
