import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, connect, type Server } from "node:net";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { isLoopback, openUpstream, type UpstreamOptions } from "../../../controller/relay/upstream.ts";
import { selfSigned } from "../../support/self-signed.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function ask(base: string, options: UpstreamOptions = {}): Promise<string> {
  const upstream = openUpstream(new URL(base), options);
  onTestFinished(() => upstream.close());
  const { host } = upstream.base;
  const call = upstream.request({ method: "GET", path: "/x", headers: ["Host", host], headerBytes: 16_384 });
  const answered = once(call, "response");
  call.end();
  const [answer] = (await answered) as [IncomingMessage];
  return textOf(answer);
}

test("a certificate of the company's own authority is taken where its file is named, and only there", async () => {
  const { key, cert } = selfSigned();
  const server = createTlsServer({ key, cert }, (_, reply) => reply.end("secure"));
  server.on("tlsClientError", () => undefined);
  const base = `https://127.0.0.1:${await portOf(server)}/`;
  const caFile = join(temporaryDirectory(), "ca.pem");
  writeFileSync(caFile, cert);
  expect(await ask(base, { caFile })).toBe("secure");
  await expect(ask(base)).rejects.toMatchObject({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
});

const CREDENTIALS = `Basic ${Buffer.from("user:pass").toString("base64")}`;

/** A proxy that keeps what it was asked for, and leads everything to one port. */
async function proxyTo(port: number): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const proxy = createServer((call, reply) => {
    asked.push(`${call.method} ${call.url} ${call.headers["proxy-authorization"] ?? ""}`.trim());
    reply.end("by the proxy");
  });
  proxy.on("connect", (call, near) => {
    asked.push(`CONNECT ${call.url} ${call.headers["proxy-authorization"] ?? ""}`.trim());
    const far = connect(port, "127.0.0.1", () => {
      near.write("HTTP/1.1 200 OK\r\n\r\n");
      near.pipe(far).pipe(near);
    });
    for (const socket of [near, far]) socket.on("error", () => undefined);
    onTestFinished(() => {
      near.destroy();
      far.destroy();
    });
  });
  return { url: `http://127.0.0.1:${await portOf(proxy)}`, asked };
}

test("a proxy is asked for a tunnel to an https address, whose certificate is still the provider's", async () => {
  const { key, cert } = selfSigned();
  const server = createTlsServer({ key, cert }, (_, reply) => reply.end("secure"));
  server.on("tlsClientError", () => undefined);
  const proxy = await proxyTo(await portOf(server));
  const caFile = join(temporaryDirectory(), "ca.pem");
  writeFileSync(caFile, cert);
  // Its name is not the certificate's: that is seen through the tunnel.
  const url = proxy.url.replace("//", "//user:pass@");
  await expect(ask("https://provider.example/", { caFile, proxy: url })).rejects.toMatchObject({
    code: "ERR_TLS_CERT_ALTNAME_INVALID",
  });
  expect(proxy.asked).toEqual([`CONNECT provider.example:443 ${CREDENTIALS}`]);
});

test("a proxy gets the whole address of an http one, and its own credentials", async () => {
  const proxy = await proxyTo(1);
  const url = proxy.url.replace("//", "//user:pass@");
  expect(await ask("http://provider.example/", { proxy: url })).toBe("by the proxy");
  expect(proxy.asked).toEqual([
    `GET http://provider.example/x Basic ${Buffer.from("user:pass").toString("base64")}`,
  ]);
});

test("no proxy is ever asked for an address on loopback", async () => {
  const proxy = await proxyTo(1);
  const port = await portOf(createServer((_, reply) => reply.end("direct")));
  for (const host of ["127.0.0.1", "localhost"])
    expect(await ask(`http://${host}:${port}/`, { proxy: proxy.url })).toBe("direct");
  expect(proxy.asked).toEqual([]);
});

test("what loopback is", () => {
  for (const host of [
    "localhost",
    "LOCALHOST",
    "a.localhost",
    "127.0.0.1",
    "127.9.9.9",
    "[::1]",
    "::1",
    "[::ffff:7f00:1]",
  ])
    expect(isLoopback(host), host).toBe(true);
  for (const host of [
    "p.example",
    "localhost.example",
    "127.0.0.1.example",
    "10.0.0.1",
    "[::2]",
    "128.0.0.1",
  ])
    expect(isLoopback(host), host).toBe(false);
});

test("an authority that can't be read and a proxy that is none are refused, and no password is told", () => {
  const base = new URL("https://p.example/");
  const empty = join(temporaryDirectory(), "ca.pem");
  writeFileSync(empty, "nothing");
  for (const options of [
    { caFile: "/nowhere" },
    { caFile: empty },
    { proxy: "socks5://u:sk-1@x" },
    { proxy: "x" },
  ]) {
    expect(() => openUpstream(base, options)).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
    expect(() => openUpstream(base, options)).not.toThrow("sk-1");
  }
});
