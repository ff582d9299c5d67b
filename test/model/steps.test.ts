// Each kind of step over a real socket: what the client sees, and how the record says it ended.
import { expect, test } from "vitest";
import type { ModelServer } from "../support/model/server.ts";
import { parseSteps } from "../support/model/steps.ts";
import { ask, startForTest } from "./client.ts";

const LIMIT_MS = 5000;

async function endingOf(server: ModelServer): Promise<string> {
  return (await server.waitForRequest((each) => each.ending !== "open", LIMIT_MS)).ending;
}

for (const stream of [true, false]) {
  const how = stream ? "streamed" : "whole";

  test(`a text arrives exactly, ${how}`, async () => {
    const server = await startForTest();
    const text = "  Zwei  Wörter\r\nund 🧭\t𝒳 \n";
    server.script("go", [text]);
    const reply = await ask(server, { user: "go", stream });
    expect(reply).toMatchObject({ text, finish: "stop", isDone: true, isBroken: false });
    expect(reply.usage).toMatchObject({ prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 });
    expect(await endingOf(server)).toBe("completed");
  });

  test(`several tool calls arrive in order beside a text, ${how}`, async () => {
    const server = await startForTest();
    const toolCalls = [
      { name: "bash", arguments: { command: "echo ä" }, id: "call_a" },
      { name: "bash", arguments: "{broken" },
    ];
    server.script("go", [{ kind: "reply", text: "Two.", toolCalls }]);
    const reply = await ask(server, { user: "go", stream });
    expect(reply).toMatchObject({ text: "Two.", finish: "tool_calls" });
    expect(reply.calls[0]).toEqual({ id: "call_a", name: "bash", arguments: '{"command":"echo ä"}' });
    expect(reply.calls[1]).toMatchObject({ id: expect.stringMatching(/^call_/), arguments: "{broken" });
  });

  test(`usage can be given, zero or absent, ${how}`, async () => {
    const server = await startForTest();
    const given = { inputTokens: 7, outputTokens: 3, cachedInputTokens: 2 };
    server.script("given", [{ kind: "reply", text: "a", usage: given }]);
    server.script("zero", [{ kind: "reply", text: "a", usage: "zero" }]);
    server.script("absent", [{ kind: "reply", text: "a", usage: "absent" }]);
    const wanted = { prompt_tokens: 7, total_tokens: 10, prompt_tokens_details: { cached_tokens: 2 } };
    expect((await ask(server, { user: "given", stream })).usage).toMatchObject(wanted);
    expect((await ask(server, { user: "zero", stream })).usage).toMatchObject({ total_tokens: 0 });
    expect((await ask(server, { user: "absent", stream })).usage).toBeNull();
  });

  test(`a cut resets the connection after the partial reply, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "cut", text: "partial text" }]);
    const reply = await ask(server, { user: "go", stream });
    expect(reply).toMatchObject({ status: 200, isBroken: true, isDone: false, finish: null });
    if (stream) expect(reply.text).toBe("partial text");
    expect(await endingOf(server)).toBe("cut");
    expect(server.requests()[0]?.isClientGone).toBe(false);
  });

  test(`an early end is clean and has no finish reason, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "endEarly", text: "part" }]);
    const reply = await ask(server, { user: "go", stream });
    expect(reply).toMatchObject({ text: "part", finish: null, isBroken: false, usage: null });
    expect(await endingOf(server)).toBe("endedEarly");
  });

  test(`an error inside a 200 reply, ${how}`, async () => {
    const server = await startForTest();
    server.script("go", [{ kind: "errorChunk", text: "part", message: "overloaded" }]);
    const reply = await ask(server, { user: "go", stream });
    expect(reply).toMatchObject({ status: 200, finish: null, isBroken: false });
    expect(reply.raw).toContain('"error":{"message":"overloaded"');
    expect(await endingOf(server)).toBe("errorChunk");
  });

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
        const asked = ask(server, { user: "go", stream, signal: client.signal });
        await server.waitForRequest((each) => each.answer?.step === "hang", LIMIT_MS);
        client.abort();
        await asked.catch(() => undefined);
      } else {
        const enough = step.kind === "neverEnd" ? 5 : 1;
        let chunks = 0;
        const reply = await ask(server, {
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
}

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

test("a destroyed connection gives no header", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "destroy" }]);
  await expect(ask(server, { user: "go" })).rejects.toThrow("fetch failed");
  expect(await endingOf(server)).toBe("destroyed");
  expect(server.requests()[0]?.isClientGone).toBe(false);
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

test("a context overflow is the provider's own refusal", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "contextOverflow" }]);
  const reply = await ask(server, { user: "go" });
  expect(reply.status).toBe(400);
  expect(JSON.parse(reply.raw)).toMatchObject({ error: { code: "context_length_exceeded" } });
});

test("failFirst fails so many times, then plays the step", async () => {
  const server = await startForTest();
  server.script("go", [{ kind: "reply", text: "there", failFirst: { times: 2, status: 500 } }]);
  const statuses = [];
  for (let at = 0; at < 3; at++) statuses.push((await ask(server, { user: "go" })).status);
  expect(statuses).toEqual([500, 500, 200]);
  expect(server.requests().map(({ answer }) => answer?.isFailure)).toEqual([true, true, false]);
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
