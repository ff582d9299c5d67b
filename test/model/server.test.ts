// The server itself: exact records, the key, the control endpoint, bounds, and the program main.ts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { KEPT_REQUESTS_MAX, REQUEST_BODY_MAX_BYTES } from "../support/model/limits.ts";
import { keyHash, Records } from "../support/model/records.ts";
import { ask, assistant, bodyOf, call, result, startForTest, user } from "./client.ts";

const LIMIT_MS = 5000;

test("a request is recorded exactly: raw body, rows, calls, results, UTF-8 in every plane", async () => {
  const server = await startForTest();
  const text = "line\r\nnext\n\ttab \u0000 é e\u0301 \u{1F9ED} \u{10FFFF} \uFEFF “q” \u2028end\r";
  const messages = [
    user([
      { type: "text", text },
      { type: "text", text: "second" },
    ]),
    assistant("a\r\n", [call("c1")]),
    result("c1", text),
    user(text),
  ];
  await ask(server, { messages });
  const [record] = server.requests();
  expect(record?.bodyText).toBe(JSON.stringify(bodyOf({ messages })));
  expect(record?.request).toMatchObject({ model: "m1", system: "You help.", tools: ["bash"], stream: true });
  expect(record?.request?.rows).toEqual([
    { role: "user", text: `${text}\nsecond`, texts: [text, "second"], toolCalls: [], toolResults: [] },
    {
      role: "assistant",
      text: "a\r\n",
      texts: ["a\r\n"],
      toolCalls: [{ id: "c1", name: "bash", arguments: "{}" }],
      toolResults: [],
    },
    { role: "tool", text, texts: [text], toolCalls: [], toolResults: [{ callId: "c1", text }] },
    { role: "user", text, texts: [text], toolCalls: [], toolResults: [] },
  ]);
});

test("UTF-8 cut anywhere between packets is put together again", async () => {
  const server = await startForTest();
  const body = JSON.stringify(bodyOf({ user: "ä🧭" }));
  const outgoing = httpRequest(`${server.url}/chat/completions`, { method: "POST" });
  for (const byte of Buffer.from(body)) outgoing.write(Buffer.of(byte));
  outgoing.end();
  const [response] = await once(outgoing, "response");
  response.resume();
  await once(response, "end");
  expect(server.requests()[0]?.bodyText).toBe(body);
});

test("a key is told apart by hash and never kept", async () => {
  const server = await startForTest({ expectedKey: "right-key" });
  expect((await ask(server, { user: "x" })).status).toBe(401);
  expect((await ask(server, { user: "x", key: "wrong-key" })).status).toBe(401);
  expect((await ask(server, { user: "x", key: "right-key" })).status).toBe(200);
  const records = server.requests();
  expect(records.map(({ keyHash: hash }) => hash)).toEqual([
    null,
    keyHash("wrong-key"),
    keyHash("right-key"),
  ]);
  expect(records.map(({ ending }) => ending)).toEqual(["unauthorized", "unauthorized", "completed"]);
  expect(records[2]?.headers.authorization).toBe("<redacted>");
  expect(JSON.stringify(records)).not.toContain("-key");
  expect((await fetch(`${server.url}/models`)).status).toBe(401);
});

test("models are listed, other paths are not there", async () => {
  const server = await startForTest({ models: ["m1", "m2"] });
  const listed = await (await fetch(`${server.url}/models`)).json();
  expect(listed).toMatchObject({ data: [{ id: "m1" }, { id: "m2" }] });
  expect((await fetch(`${server.url}/nothing`)).status).toBe(404);
});

test("a body that can't be read is refused with the reason", async () => {
  const server = await startForTest();
  const bodies = ["{", "{}", Buffer.from([0x22, 0xff, 0x22]), "x".repeat(REQUEST_BODY_MAX_BYTES + 1)];
  const statuses = [];
  for (const body of bodies) {
    const response = await fetch(`${server.url}/chat/completions`, { method: "POST", body });
    statuses.push(response.status);
    await response.text();
  }
  expect(statuses).toEqual([400, 400, 400, 413]);
  expect(server.requests().every(({ ending, fault }) => ending === "refused" && fault !== null)).toBe(true);
});

test("a client that goes in the middle of its body is noted", async () => {
  const server = await startForTest();
  const outgoing = httpRequest(`${server.url}/chat/completions`, { method: "POST" });
  outgoing.on("error", () => undefined);
  outgoing.write('{"model":');
  await server.waitForRequest(() => true, LIMIT_MS);
  outgoing.destroy();
  const record = await server.waitForRequest((each) => each.ending !== "open", LIMIT_MS);
  expect(record).toMatchObject({ ending: "gone", isClientGone: true, bodyText: null });
});

test("a wait ends at its limit and says what there was", async () => {
  const server = await startForTest();
  await ask(server, { user: "x" });
  await expect(server.waitForRequest((each) => each.id === 9, 20)).rejects.toThrow("1 main completed");
});

test("beyond the kept number the oldest record is dropped and counted", () => {
  const records = new Records();
  for (let at = 0; at < KEPT_REQUESTS_MAX + 3; at++) records.setBody(records.open("p", {}, null, at), "{}");
  expect(records.list()).toHaveLength(KEPT_REQUESTS_MAX);
  expect(records.list()[0]?.id).toBe(4);
  expect(records.dropped).toBe(3);
});

test("the program serves, obeys its control endpoint and ends when stdin closes", async () => {
  const program = startProgram("--recall", "--key", "k");
  const { url } = await program.ready;
  const control = (verb: string, body?: object) =>
    fetch(new URL(`/_control/${verb}`, url), body && { method: "POST", body: JSON.stringify(body) });
  const slow = [{ kind: "reply", text: "slow", beforeFirstByteMs: 1 }];
  expect((await control("script", { match: { pattern: "^take", flags: "i" }, steps: slow })).status).toBe(
    200,
  );
  expect((await control("queue", { steps: ["queued"] })).status).toBe(200);
  expect((await control("script", { match: "x", steps: [{ kind: "nope" }] })).status).toBe(400);
  expect((await control("script", { match: { pattern: "(" }, steps: slow })).status).toBe(400);
  expect((await control("nothing")).status).toBe(404);
  const server = { url };
  expect((await ask(server, { user: "Take your time", key: "k" })).text).toBe("slow");
  expect((await ask(server, { user: "next", key: "k" })).text).toBe("queued");
  expect((await ask(server, { user: "The code word is FIG", key: "k" })).text).toBe("Noted: FIG.");
  const kept = (await (await control("requests?main")).json()) as { requests: unknown[]; dropped: number };
  expect(kept).toMatchObject({ dropped: 0, requests: [{ answer: { source: "script" } }, {}, {}] });
  expect((await control("reset", {})).status).toBe(200);
  program.child.stdin.end();
  expect(await program.exit).toEqual([0, null]);
});

test("the program ends on SIGTERM with a reply still open", async () => {
  const program = startProgram();
  const { url } = await program.ready;
  const asked = fetch(`${url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify(bodyOf({ user: '@model[{"kind":"hang"}]' })),
  });
  expect((await asked).status).toBe(200);
  program.child.kill("SIGTERM");
  expect(await program.exit).toEqual([0, null]);
});

function startProgram(...args: string[]) {
  const main = fileURLToPath(new URL("../support/model/main.ts", import.meta.url));
  const child = spawn(process.execPath, [main, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exit = once(child, "exit");
  const ready = Promise.race([
    once(createInterface(child.stdout), "line").then(([line]) => JSON.parse(String(line)) as { url: string }),
    exit.then(([code]) => Promise.reject(new Error(`the program ended with ${code}`))),
  ]);
  return { child, ready, exit };
}
