import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { type LoopbackServer, loopbackServer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import { bodyOf, type Handler, httpServer, json, tcpServer } from "./local-server.ts";

async function client(handler: Handler, answerBytes?: number): Promise<LoopbackServer> {
  return connected(await httpServer(handler), answerBytes);
}

function connected(port: number, answerBytes?: number): LoopbackServer {
  const made = loopbackServer(port, "user", "pass", answerBytes);
  onTestFinished(() => made.close());
  return made;
}

const get = { method: "GET", path: "/x?directory=/secret", limitMs: 1000 } as const;

/** What a socket says that answers one request with these bytes and then does this. */
const raw = (bytes: string, then: "end" | "destroy" | "hang" | "reset") =>
  tcpServer((socket) => {
    socket.once("data", () => {
      socket.write(bytes);
      if (then === "end") socket.end();
      // A moment for the bytes: a destroy at once may overtake them.
      if (then === "destroy") setImmediate(() => socket.destroy());
      if (then === "reset") setImmediate(() => socket.resetAndDestroy());
    });
  });

test("an answer is its status and its JSON; the body goes out as JSON with our credentials", async () => {
  const http = await client((request, response) => {
    bodyOf(request).then((body) => {
      json(response, 201, {
        body,
        authorization: request.headers.authorization,
        type: request.headers["content-type"],
      });
    }, expect.unreachable);
  });
  const answer = await http.ask({ method: "POST", path: "/x", body: { text: "Größe 🦑" }, limitMs: 1000 });
  expect(answer).toEqual({
    status: 201,
    json: {
      body: `{"text":"Größe 🦑"}`,
      authorization: `Basic ${Buffer.from("user:pass").toString("base64")}`,
      type: "application/json",
    },
  });
});

test("an empty answer has no JSON, and an error's page is not read", async () => {
  const http = await client((request, response) => {
    if (request.url === "/empty") response.writeHead(204).end();
    else response.writeHead(502, { "content-type": "text/html" }).end("<html>bad gateway</html>");
  });
  expect(await http.ask({ ...get, path: "/empty" })).toEqual({ status: 204, json: null });
  expect(await http.ask(get)).toEqual({ status: 502, json: null });
});

test("P40: a page with status 200 is never an answer of the API", async () => {
  const http = await client((_, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<html>hello</html>");
  });
  await expect(http.ask(get)).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: "GET /x: status 200 with a body that is not JSON",
  });
});

test("P40: a page that calls itself JSON is no answer either", async () => {
  const http = await client((_, response) => {
    response.writeHead(200, { "content-type": "application/json" }).end("<html>hello</html>");
  });
  await expect(http.ask(get)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
});

test("the query, which may hold paths, is in no error", async () => {
  const http = await client(() => undefined);
  await expect(http.ask({ ...get, limitMs: 50 })).rejects.toSatisfy(
    (error) => error instanceof Error && !error.message.includes("secret"),
  );
});

test("an answer that does not begin, or does not end, within the limit fails", async () => {
  const silent = await client(() => undefined);
  await expect(silent.ask({ ...get, limitMs: 50 })).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: "GET /x: no answer within 50 ms",
  });
  const half = connected(
    await raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{", "hang"),
  );
  await expect(half.ask({ ...get, limitMs: 100 })).rejects.toMatchObject({ code: "CLI_NOT_READY" });
});

test.each<[string, string, "end" | "destroy" | "reset"]>([
  ["before its head", "", "end"],
  ["in its head", "HTTP/1.1 200 OK\r\ncontent-ty", "end"],
  [
    "in a body of known length",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n[1",
    "end",
  ],
  [
    "in a chunked body",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[1\r\n",
    "end",
  ],
  [
    "in a chunked body, by a reset",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[1\r\n",
    "reset",
  ],
  [
    "in a body that ends with the connection",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n[1",
    "end",
  ],
  ["right away", "", "destroy"],
])("an answer cut %s fails and is never read as whole", async (_where, bytes, then) => {
  const http = connected(await raw(bytes, then));
  await expect(http.ask(get)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
});

test("P25: an answer that comes a byte at a time is read as it was written", async () => {
  const text = JSON.stringify({ text: "é € 🦑 ".repeat(20) });
  const http = await client((_, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    for (const byte of Buffer.from(text)) response.write(Buffer.from([byte]));
    response.end();
  });
  expect((await http.ask(get)).json).toEqual(JSON.parse(text));
});

test("an answer beyond the limit of bytes is an error with its own code", async () => {
  const http = await client((_, response) => json(response, 200, "x".repeat(2000)), 1000);
  await expect(http.ask(get)).rejects.toMatchObject({ code: "OUTPUT_LIMIT" });
});

test("nobody on the port is an error, not a hang", async () => {
  const port = await tcpServer((socket) => socket.destroy());
  const http = connected(port);
  await expect(http.ask(get)).rejects.toMatchObject({ code: "CLI_NOT_READY" });
});

test("connections are kept for the next request, save where one asks for its own", async () => {
  const ports: (number | undefined)[] = [];
  const http = await client((request, response) => {
    ports.push(request.socket.remotePort);
    json(response, 200, null);
  });
  await http.ask(get);
  await http.ask(get);
  await http.ask({ ...get, ownSocket: true });
  expect(ports[1]).toBe(ports[0]);
  expect(ports[2]).not.toBe(ports[0]);
});

test("P38: proxy variables that point at a dead address do not matter", async () => {
  const port = await httpServer((request, response) => json(response, 200, request.url));
  const module = new URL("../../../../bridge/drivers/serve/loopback-http.ts", import.meta.url).href;
  const script = `
    import { loopbackServer } from ${JSON.stringify(module)};
    const http = loopbackServer(${port}, "u", "p");
    const kept = await http.ask({ method: "GET", path: "/kept", limitMs: 2000 });
    const own = await http.ask({ method: "GET", path: "/own", limitMs: 2000, ownSocket: true });
    const stream = http.open("/stream");
    stream.on("response", (response) => {
      console.log(JSON.stringify([kept.json, own.json, response.statusCode]));
      response.resume().on("end", () => http.close());
    });
    stream.end();`;
  const dead = "http://127.0.0.1:9";
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    env: {
      ...process.env,
      ...Object.fromEntries(names.map((name) => [name, dead])),
      NO_PROXY: "",
      no_proxy: "",
      NODE_USE_ENV_PROXY: "1",
    },
  });
  expect(JSON.parse(stdout)).toEqual(["/kept", "/own", 200]);
});
