// Each kind of step over a real socket, in each protocol, streamed and whole: what the client sees, and how the
// record says it ended.
import { expect, test } from "vitest";
import type { ModelServer } from "../support/model/server.ts";
import { parseSteps } from "../support/model/steps.ts";
import { ask, startForTest } from "./client.ts";
import { CHAT, MESSAGES, RESPONSES, WIRES } from "./wires.ts";

const LIMIT_MS = 5000;

async function endingOf(server: ModelServer): Promise<string> {
  return (await server.waitForRequest((each) => each.ending !== "open", LIMIT_MS)).ending;
}

const GIVEN = { inputTokens: 70, outputTokens: 30, cachedInputTokens: 20, cacheWriteTokens: 10 };
const NOTHING = { ...GIVEN, inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0 };
const REASONS = ["server", "overloaded", "rateLimit", "contextOverflow"] as const;

const MODES = WIRES.flatMap((wire) => [true, false].map((stream) => ({ wire, stream })));
for (const { wire, stream } of MODES) {
  const how = `${wire.name} ${stream ? "streamed" : "whole"}`;

  test(`a text arrives exactly, ${how}`, async () => {
    const server = await startForTest();
    const text = "  Zwei  Wörter\r\nund 🧭\t𝒳 \n";
    server.script("go", [text]);
    const reply = await ask(server, { wire, user: "go", stream });
    expect(reply).toMatchObject({ text, calls: [], finish: "stop", isDone: true, isBroken: false });
    expect(reply.usage).toEqual({ ...NOTHING, inputTokens: 100, outputTokens: 10, reasoningTokens: 0 });
    expect(await endingOf(server)).toBe("completed");
    expect(server.requests()[0]).toMatchObject({ protocol: wire.name, request: { stream, model: "m1" } });
  });

  test(`several tool calls arrive in order beside a text, ${how}`, async () => {
    const server = await startForTest();
    const toolCalls = [
      { name: "bash", arguments: { command: "echo ä" }, id: "call_a" },
      { name: "bash", arguments: "{broken" },
    ];
    server.script("go", [{ kind: "reply", text: "Two.", toolCalls }]);
    const reply = await ask(server, { wire, user: "go", stream });
    expect(reply).toMatchObject({ text: "Two.", finish: "toolCalls", isDone: true });
    expect(reply.calls).toEqual([
      { id: "call_a", name: "bash", arguments: '{"command":"echo ä"}' },
      {
        id: expect.stringMatching(`^${wire.callPrefix}[0-9a-f]{32}$`),
        name: "bash",
        arguments: "{broken",
      },
    ]);
  });

  test(`a reply may be tool calls alone, or be cut by its length, ${how}`, async () => {
    const server = await startForTest();
    server.script("call", [{ kind: "reply", toolCalls: [{ name: "bash", arguments: {} }] }]);
    server.script("long", [{ kind: "reply", text: "and so", finish: "length" }]);
    const alone = await ask(server, { wire, user: "call", stream });
    expect(alone).toMatchObject({ text: "", finish: "toolCalls", calls: [{ name: "bash" }] });
    const long = await ask(server, { wire, user: "long", stream });
    expect(long).toMatchObject({ text: "and so", finish: "length", isDone: true });
  });

  test(`usage can be given, zero or absent, ${how}`, async () => {
    const server = await startForTest();
    const reasoningTokens = wire.statesReasoning ? 5 : 0;
    server.script("given", [{ kind: "reply", text: "a", usage: { ...GIVEN, reasoningTokens } }]);
    server.script("zero", [{ kind: "reply", text: "a", usage: "zero" }]);
    server.script("absent", [{ kind: "reply", text: "a", usage: "absent" }]);
    const usageOf = async (text: string) => (await ask(server, { wire, user: text, stream })).usage ?? null;
    expect(await usageOf("given")).toEqual({ ...GIVEN, reasoningTokens });
    expect(await usageOf("zero")).toEqual({ ...NOTHING, reasoningTokens: 0 });
    expect(await usageOf("absent")).toBeNull();
  });

  test(`a cut resets the connection after the partial reply, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "cut", text: "partial text" }]);
    const reply = await ask(server, { wire, user: "go", stream });
    expect(reply).toMatchObject({ status: 200, isBroken: true, isDone: false, finish: null });
    if (stream) expect(reply.text).toBe("partial text");
    expect(await endingOf(server)).toBe("cut");
    expect(server.requests()[0]?.isClientGone).toBe(false);
  });

  test(`an early end is clean and has no finish reason, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "endEarly", text: "part" }]);
    const reply = await ask(server, { wire, user: "go", stream });
    expect(reply).toMatchObject({ text: "part", finish: null, isBroken: false });
    expect(reply.usage ?? null).toBeNull();
    expect(await endingOf(server)).toBe("endedEarly");
  });

  for (const reason of REASONS) {
    test(`an error inside a 200 reply: ${reason}, ${how}`, async () => {
      const server = await startForTest();
      server.script("go", [{ kind: "errorChunk", text: "part", message: "no more", reason }]);
      const reply = await ask(server, { wire, user: "go", stream });
      expect(reply).toMatchObject({ status: 200, finish: null, isBroken: false });
      const name = stream ? wire.streamErrors[reason] : wire.statusErrors[500];
      expect(reply.error).toEqual({ message: "no more", name });
      if (stream) expect(reply).toMatchObject({ text: "part", isDone: false });
      expect(await endingOf(server)).toBe("errorChunk");
    });
  }

  for (const step of [
    { kind: "hang" as const },
    { kind: "stall" as const, text: "some text" },
    { kind: "neverEnd" as const, text: "on ", everyMs: 1 },
  ]) {
    test(`${step.kind} has headers and no end, and notes that the client went, ${how}`, async () => {
      const server = await startForTest();
      server.script("go", [step]);
      const client = new AbortController();
      if (step.kind === "hang") {
        const asked = ask(server, { wire, user: "go", stream, signal: client.signal });
        await server.waitForRequest((each) => each.answer?.step === "hang", LIMIT_MS);
        client.abort();
        await asked.catch(() => undefined);
      } else {
        const enough = step.kind === "neverEnd" ? 5 : 1;
        let chunks = 0;
        const reply = await ask(server, {
          wire,
          user: "go",
          stream,
          signal: client.signal,
          onChunk: () => {
            if (++chunks >= enough) client.abort();
          },
        });
        expect(reply).toMatchObject({ isBroken: true, isDone: false, finish: null });
      }
      expect(await endingOf(server)).toBe("gone");
      expect(server.requests()[0]).toMatchObject({ isClientGone: true, endedAt: expect.any(Number) });
    });
  }

  test(`a destroyed connection gives no header, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "destroy" }]);
    await expect(ask(server, { wire, user: "go", stream })).rejects.toThrow("fetch failed");
    expect(await endingOf(server)).toBe("destroyed");
    expect(server.requests()[0]?.isClientGone).toBe(false);
  });

  test(`a status has the protocol's own error, ${how}`, async () => {
    const server = await startForTest();
    for (const [code, name] of Object.entries(wire.statusErrors)) {
      server.script(`go ${code}`, [{ kind: "status", status: Number(code) }]);
      const reply = await ask(server, { wire, user: `go ${code}`, stream });
      expect(reply.status).toBe(Number(code));
      const { error } = JSON.parse(reply.raw);
      expect(error).toMatchObject({ message: `scripted status ${code}`, type: name });
    }
  });

  test(`failFirst fails or breaks so many times, then plays the step, ${how}`, async () => {
    const server = await startForTest();
    const failures = [
      { times: 2, status: 500 },
      { times: 1, step: { kind: "destroy" as const } },
      { times: 1, step: { kind: "cut" as const, text: "par" } },
      { times: 1, step: { kind: "endEarly" as const, text: "part" } },
      { times: 1, step: { kind: "errorChunk" as const, text: "part", reason: "overloaded" as const } },
    ];
    for (const [at, failFirst] of failures.entries()) {
      server.script(`go ${at}`, [{ kind: "reply", text: "there", failFirst }]);
      for (let tries = 0; tries < failFirst.times; tries++) {
        await ask(server, { wire, user: `go ${at}`, stream }).catch(() => undefined);
      }
      expect(await ask(server, { wire, user: `go ${at}`, stream })).toMatchObject({ text: "there" });
    }
    const made = server.requests().map(({ answer, ending }) => [answer?.isFailure, ending]);
    expect(made).toEqual([
      [true, "status"],
      [true, "status"],
      [false, "completed"],
      [true, "destroyed"],
      [false, "completed"],
      [true, "cut"],
      [false, "completed"],
      [true, "endedEarly"],
      [false, "completed"],
      [true, "errorChunk"],
      [false, "completed"],
    ]);
  });
}

test("a context overflow is the provider's own refusal, where that protocol says it", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "contextOverflow" }]);
  const chat = await ask(server, { wire: CHAT, user: "go" });
  expect(chat).toMatchObject({ status: 400, error: { name: "context_length_exceeded" } });
  const messages = await ask(server, { wire: MESSAGES, user: "go" });
  expect(messages).toMatchObject({ status: 400, error: { name: "invalid_request_error" } });
  expect(messages.error?.message).toMatch(/^prompt is too long: \d+ tokens > \d+ maximum$/);
  const whole = await ask(server, { wire: RESPONSES, user: "go", stream: false });
  expect(whole).toMatchObject({ status: 400, error: { name: "context_length_exceeded" } });
  const streamed = await ask(server, { wire: RESPONSES, user: "go" });
  expect(streamed).toMatchObject({ status: 200, error: { name: "context_length_exceeded" }, text: "" });
  expect(server.requests().map(({ ending }) => ending)).toEqual(["status", "status", "status", "errorChunk"]);
});

test("a hang sends its headers at once", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "hang" }]);
  const client = new AbortController();
  const response = await fetch(`${server.url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "m1", stream: true, messages: [{ role: "user", content: "go" }] }),
    signal: client.signal,
  });
  expect(response.status).toBe(200);
  client.abort();
  expect(await endingOf(server)).toBe("gone");
});

test("a status comes with its headers, its own body or the protocol's", async () => {
  const server = await startForTest();
  const headers = { "retry-after": "3" };
  server.script("own", [{ kind: "status", status: 429, headers, body: { error: { message: "slow down" } } }]);
  server.script("plain", [{ kind: "status", status: 503, body: "down" }]);
  server.script("other", [{ kind: "status", status: 500 }]);
  const own = await ask(server, { user: "own" });
  expect(own.status).toBe(429);
  expect(own.headers.get("retry-after")).toBe("3");
  expect(own.raw).toBe('{"error":{"message":"slow down"}}');
  expect(await ask(server, { user: "plain" })).toMatchObject({ status: 503, raw: "down" });
  const other = await ask(server, { user: "other" });
  expect(JSON.parse(other.raw)).toMatchObject({ error: { message: "scripted status 500" } });
  expect(server.requests().map(({ ending }) => ending)).toEqual(["status", "status", "status"]);
});

test("a slow step waits before the first byte and between chunks, on the given clock", async () => {
  const waits: number[] = [];
  const clock = {
    now: () => 5000,
    sleep: (ms: number) => {
      waits.push(ms);
      return Promise.resolve();
    },
  };
  const server = await startForTest({ clock });
  server.script("go", [
    { kind: "reply", text: ["a", "b", "c"], beforeFirstByteMs: 700, betweenChunksMs: 30 },
  ]);
  expect((await ask(server, { user: "go" })).text).toBe("abc");
  expect(waits).toEqual([700, 30, 30]);
  expect(server.requests()[0]).toMatchObject({ arrivedAt: 5000, endedAt: 5000 });
});

test("closing the server ends a slow reply at once and leaves nothing waiting", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "reply", text: "late", beforeFirstByteMs: 60_000 }]);
  const asked = ask(server, { user: "go" }).catch((error: unknown) => String(error));
  await server.waitForRequest((each) => each.answer !== null, LIMIT_MS);
  const waiting = server.waitForRequest(() => false, 60_000).catch((error: unknown) => String(error));
  await server.close();
  expect(await asked).toContain("fetch failed");
  expect(await waiting).toContain("closed");
  expect(server.requests()[0]).toMatchObject({ ending: "closed", isClientGone: false });
});

test("a script that is none is refused where it is given", () => {
  expect(() => parseSteps([])).toThrow(TypeError);
  expect(() => parseSteps([{ kind: "reply", txt: "typo" }])).toThrow(TypeError);
  expect(() => parseSteps([{ kind: "status" }])).toThrow(TypeError);
  expect(() => parseSteps([{ kind: "hang", beforeFirstByteMs: -1 }])).toThrow(TypeError);
  expect(parseSteps(["short"])).toEqual([{ kind: "reply", text: "short" }]);
});
