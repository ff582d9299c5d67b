import { expect, onTestFinished, test } from "vitest";
import { type ServeApi, serveApi } from "../../../../bridge/drivers/serve/api.ts";
import { loopbackServer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import { bodyOf, httpServer, json } from "./local-server.ts";

interface Seen {
  line: string;
  body: unknown;
}

const ports: (number | undefined)[] = [];

async function api(answer: { status: number; json?: unknown }): Promise<{ api: ServeApi; seen: Seen[] }> {
  const seen: Seen[] = [];
  const port = await httpServer((request, response) => {
    ports.push(request.socket.remotePort);
    bodyOf(request).then((body) => {
      seen.push({ line: `${request.method} ${request.url}`, body: body === "" ? null : JSON.parse(body) });
      if (answer.json === undefined) response.writeHead(answer.status).end();
      else json(response, answer.status, answer.json);
    }, expect.unreachable);
  });
  const http = loopbackServer(port, "u", "p");
  onTestFinished(() => http.close());
  return { api: serveApi(http, 1000), seen };
}

test("health gives the version, and only of a server that is healthy", async () => {
  const well = await api({ status: 200, json: { healthy: true, version: "1.18.33" } });
  expect(await well.api.health(1000)).toBe("1.18.33");
  expect(well.seen).toEqual([{ line: "GET /global/health", body: null }]);
  for (const other of [{ healthy: false, version: "1" }, { healthy: true }, "ok", []]) {
    const ill = await api({ status: 200, json: other });
    await expect(ill.api.health(1000)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  }
});

test("a session is made in the directory, with a title so that no model is asked for one", async () => {
  const { api: calls, seen } = await api({ status: 200, json: { id: "ses_1", directory: "/w s" } });
  expect(await calls.createSession("/w s")).toEqual({ id: "ses_1", directory: "/w s" });
  expect(seen).toEqual([{ line: "POST /session?directory=%2Fw%20s", body: { title: "holdfast" } }]);
});

test("a session that is not there is null; any other refusal is an error, never an absence", async () => {
  expect(await (await api({ status: 404, json: { name: "NotFoundError" } })).api.session("ses_1")).toBeNull();
  expect(await (await api({ status: 404 })).api.messages("ses_1", 5)).toBeNull();
  for (const status of [400, 401, 500, 503]) {
    const refused = await api({ status, json: { name: "UnknownError" } });
    await expect(refused.api.session("ses_1")).rejects.toThrow(`answered ${status}`);
    await expect(refused.api.messages("ses_1", null)).rejects.toThrow(`answered ${status}`);
  }
});

test("messages come with id, role and parts; the limit is asked for", async () => {
  const stored = [
    {
      info: { id: "m1", sessionID: "ses_1", role: "assistant", time: { created: 1, completed: 2 }, cost: 0 },
      parts: [{ type: "text", text: "hi", id: "p" }],
    },
  ];
  const { api: calls, seen } = await api({ status: 200, json: stored });
  expect((await calls.messages("ses_1", 50))?.[0]).toMatchObject({ info: { id: "m1", role: "assistant" } });
  await calls.messages("ses/1", null);
  expect(seen.map(({ line }) => line)).toEqual([
    "GET /session/ses_1/message?limit=50",
    "GET /session/ses%2F1/message",
  ]);
});

test("the prompt is sent with our ids, the model and the text as it is, and nothing else (law 1)", async () => {
  const { api: calls, seen } = await api({ status: 204 });
  const text = "/compact \u0000 Größe 🦑\r\n  ";
  const answer = await calls.prompt("ses_1", { messageId: "msg_1", partId: "prt_1", text, model: "m1" });
  expect(answer).toEqual({ status: 204, json: null });
  expect(seen).toEqual([
    {
      line: "POST /session/ses_1/prompt_async",
      body: {
        messageID: "msg_1",
        model: { providerID: "holdfast", modelID: "m1" },
        parts: [{ type: "text", id: "prt_1", text }],
      },
    },
  ]);
});

test("P11: a permission is answered with the field that the server's schema has", async () => {
  const { api: calls, seen } = await api({ status: 200, json: true });
  await calls.replyPermission("per_1", "once", 1000);
  await calls.replyPermission("per_2", "reject", 1000);
  expect(seen).toEqual([
    { line: "POST /permission/per_1/reply", body: { reply: "once" } },
    { line: "POST /permission/per_2/reply", body: { reply: "reject" } },
  ]);
});

test("a refused reply is an answer with its status, not an error", async () => {
  const { api: calls } = await api({ status: 404, json: { _tag: "PermissionNotFoundError" } });
  expect((await calls.replyPermission("per_1", "once", 1000)).status).toBe(404);
  expect((await calls.answerQuestion("que_1", null, 1000)).status).toBe(404);
  expect((await calls.replyNetwork("net_1", "retry", 1000)).status).toBe(404);
});

test("P11: a question is answered and rejected in the form that the server's schema has, each by its own call", async () => {
  const { api: calls, seen } = await api({ status: 200, json: true });
  await calls.answerQuestion("que_1", [["blue"], ["a", "b"]], 1000);
  await calls.answerQuestion("que/2", null, 1000);
  expect(seen).toEqual([
    { line: "POST /question/que_1/reply", body: { answers: [["blue"], ["a", "b"]] } },
    { line: "POST /question/que%2F2/reject", body: {} },
  ]);
});

test("a provider out of reach is tried again or given up by a call of its own", async () => {
  const { api: calls, seen } = await api({ status: 200, json: true });
  await calls.replyNetwork("que_1", "retry", 1000);
  await calls.replyNetwork("que_2", "reject", 1000);
  expect(seen).toEqual([
    { line: "POST /network/que_1/reply", body: {} },
    { line: "POST /network/que_2/reject", body: {} },
  ]);
});

test("pending questions and network requests are listed for the directory, questions with all they ask", async () => {
  const listed = {
    id: "que_1",
    sessionID: "ses_1",
    blocking: null,
    questions: [{ question: "Pick", header: "H", options: [{ label: "red", description: "r" }] }],
    tool: { messageID: "msg_1", callID: "call_1" },
  };
  const { api: calls, seen } = await api({ status: 200, json: [listed] });
  expect(await calls.pendingQuestions("/w", 1000)).toMatchObject([
    { id: "que_1", sessionID: "ses_1", questions: [{ header: "H", options: [{ label: "red" }] }] },
  ]);
  expect(await calls.pendingNetwork("/w", 1000)).toMatchObject([{ id: "que_1", sessionID: "ses_1" }]);
  expect(seen.map(({ line }) => line)).toEqual([
    "GET /question?directory=%2Fw",
    "GET /network?directory=%2Fw",
  ]);
});

test("pending requests are listed for the directory, with their session", async () => {
  const { api: calls, seen } = await api({
    status: 200,
    json: [{ id: "per_1", sessionID: "ses_1", permission: "bash" }],
  });
  expect(await calls.pendingPermissions("/w", 1000)).toEqual([
    { id: "per_1", sessionID: "ses_1", permission: "bash", patterns: [] },
  ]);
  expect(seen[0]?.line).toBe("GET /permission?directory=%2Fw");
});

test("whatever is not idle is busy: retry and offline too; an absent session is idle", async () => {
  const { api: calls } = await api({
    status: 200,
    json: {
      ses_1: { type: "busy" },
      ses_2: { type: "idle" },
      ses_3: { type: "retry", attempt: 1, next: 5 },
      ses_4: { type: "offline", requestID: "que_1" },
    },
  });
  expect(await calls.busySessions("/w")).toEqual(["ses_1", "ses_3", "ses_4"]);
});

test("the canary goes to the directory, as a toast that carries the nonce", async () => {
  const { api: calls, seen } = await api({ status: 200, json: true });
  await calls.publishCanary("/w", "nonce-1", 1000);
  expect(seen).toEqual([
    {
      line: "POST /tui/publish?directory=%2Fw",
      body: { type: "tui.toast.show", properties: { message: "nonce-1", variant: "info" } },
    },
  ]);
});

test("a refused canary and a refused abort are errors that name call and status", async () => {
  const { api: calls } = await api({ status: 500, json: null });
  await expect(calls.publishCanary("/w", "n", 1000)).rejects.toThrow("POST /tui/publish answered 500");
  await expect(calls.abort("ses_1", 1000)).rejects.toThrow("POST /session/:id/abort answered 500");
});

test("an answer of another shape is an error, not a guess", async () => {
  const { api: calls } = await api({ status: 200, json: { unexpected: true } });
  await expect(calls.session("ses_1")).rejects.toThrow("answered something unexpected");
  await expect(calls.messages("ses_1", null)).rejects.toThrow("answered something unexpected");
  await expect(calls.pendingPermissions("/w", 1000)).rejects.toThrow("answered something unexpected");
  await expect(calls.busySessions("/w")).rejects.toThrow("answered something unexpected");
});

test("what is sent once goes over a connection of its own: a kept one may be closed as we use it", async () => {
  const { api: calls } = await api({ status: 200, json: true });
  ports.length = 0;
  await calls.replyPermission("per_1", "once", 1000);
  await calls.prompt("ses_1", { messageId: "msg_1", partId: "prt_1", text: "t", model: "m1" });
  await calls.abort("ses_1", 1000);
  await calls.replyPermission("per_2", "once", 1000);
  expect(new Set(ports).size).toBe(3);
  expect(ports[3]).toBe(ports[0]);
});
