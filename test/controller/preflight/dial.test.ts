import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { type Dial, dial, ProxyRefusal } from "../../../controller/preflight/dial.ts";
import { startHttpProxy } from "../../support/http-proxy.ts";
import { startModelServer } from "../../support/model/server.ts";
import { selfSigned } from "../../support/self-signed.ts";
import { until } from "../../support/until.ts";

function options(url: string, proxy: URL | null, more: Partial<Dial> = {}): Dial {
  const signal = new AbortController().signal;
  return {
    url: new URL(url),
    proxy,
    method: "GET",
    headers: { authorization: "Bearer k" },
    body: "",
    signal,
    ...more,
  };
}

async function status(given: Dial): Promise<number | undefined> {
  const request = await dial(given);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once("response", resolve).on("error", reject).end(given.body);
  });
  answer.resume();
  return answer.statusCode;
}

/** Nobody listens there. */
const NOBODY = new URL("http://127.0.0.1:1");

async function tlsServer(): Promise<string> {
  const server = createServer(selfSigned(), (_, response) => response.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1/models`;
}

test("a plain request goes through a proxy by its whole address, and straight without one", async () => {
  const model = await startModelServer({ expectedKey: "k" });
  onTestFinished(() => model.close());
  const proxy = await startHttpProxy();
  const url = `${model.url}/models`;
  expect(await status(options(url, null))).toBe(200);
  expect(proxy.asked).toEqual([]);
  expect(await status(options(url, proxy.url))).toBe(200);
  expect(proxy.asked).toEqual([`GET ${url}`]);
});

test("a TLS request goes through a tunnel, in which the proxy sees neither path nor key, and is verified", async () => {
  const proxy = await startHttpProxy();
  const url = await tlsServer();
  await expect(status(options(url, proxy.url))).rejects.toThrow(/self-signed/);
  expect(proxy.asked).toEqual([`CONNECT ${new URL(url).host}`]);
  expect(JSON.stringify(proxy.headers)).not.toContain("Bearer");
  await until("the tunnel's end", () => proxy.openSockets() === 0);
});

test("a proxy that refuses is told with its status, one that is not there with the reason", async () => {
  const refusing = await startHttpProxy((answer) => {
    if ("tunnel" in answer) answer.tunnel.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
  });
  const url = "https://model.invalid/v1";
  await expect(dial(options(url, refusing.url))).rejects.toThrow("the proxy refuses the way (status 407)");
  await expect(dial(options(url, NOBODY))).rejects.toThrow(
    "the proxy 127.0.0.1:1 can't be reached (ECONNREFUSED)",
  );
  await expect(dial(options(url, NOBODY))).rejects.toBeInstanceOf(ProxyRefusal);
});

test("a proxy that never opens the tunnel is given up with the signal, and nothing is left open", async () => {
  const silent = await startHttpProxy(() => undefined);
  const stop = new AbortController();
  const ended = dial(options("https://model.invalid/v1", silent.url, { signal: stop.signal }));
  const told = expect(ended).rejects.toMatchObject({ name: "AbortError" });
  await until("the proxy's being asked", () => silent.asked.length === 1);
  stop.abort();
  await told;
  await until("the connection's end", () => silent.openSockets() === 0);
});

test("a signal that ends a request within a tunnel ends the tunnel", async () => {
  const server = createServer(selfSigned());
  server.on("error", () => undefined);
  const proxy = await startHttpProxy((answer) => {
    // Opened, and then nobody speaks TLS behind it.
    if ("tunnel" in answer) answer.tunnel.write("HTTP/1.1 200 OK\r\n\r\n");
  });
  const stop = new AbortController();
  const request = await dial(options("https://model.invalid/v1", proxy.url, { signal: stop.signal }));
  const failed = new Promise<Error>((resolve) => request.once("error", resolve));
  request.end();
  stop.abort();
  expect((await failed).name).toBe("AbortError");
  await until("the tunnel's end", () => proxy.openSockets() === 0);
});
