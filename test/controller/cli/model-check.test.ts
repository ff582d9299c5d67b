import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { checkModel as check } from "../../../controller/cli/model-check.ts";
import { relayOf } from "../../../controller/cli/relay-settings.ts";
import { ModelProtocol } from "../../../protocol/model-protocol.ts";
import { startModelServer } from "../../support/model/server.ts";

const checkModel = (given: { baseUrl: string; key: string | null }, protocol: ModelProtocol) =>
  check(relayOf({ ...given, upstream: {} }), protocol, undefined, {});

async function model(expectedKey?: string) {
  const server = await startModelServer(expectedKey === undefined ? {} : { expectedKey });
  onTestFinished(() => server.close());
  return server;
}

test("a model that lists its models is well, with a slash at the end or without", async () => {
  const { url } = await model("k");
  expect(await checkModel({ baseUrl: url, key: "k" }, "chat-completions")).toBeNull();
  expect(await checkModel({ baseUrl: `${url}/`, key: "k" }, "chat-completions")).toBeNull();
});

test("a wrong key and a missing one are said, without the key", async () => {
  const { url } = await model("right");
  await expect(checkModel({ baseUrl: url, key: "wrong-key" }, "chat-completions")).rejects.toMatchObject({
    code: "MODEL_UNREACHABLE",
    message: expect.not.stringContaining("wrong-key") as string,
  });
  await expect(checkModel({ baseUrl: url, key: null }, "chat-completions")).rejects.toThrow("--key-file");
});

test("an address where nobody listens is said with the reason", async () => {
  await expect(
    checkModel({ baseUrl: "http://127.0.0.1:1/v1", key: null }, "chat-completions"),
  ).rejects.toMatchObject({
    code: "MODEL_UNREACHABLE",
    message: expect.stringMatching(/127\.0\.0\.1:1 does not answer \(ECONNREFUSED\)/) as string,
  });
});

test("an address without a list of models is a remark only: not every provider has one", async () => {
  const { url } = await model();
  expect(await checkModel({ baseUrl: url.replace("/v1", ""), key: null }, "chat-completions")).toContain(
    "answers 404",
  );
});

test("it is asked as the protocol asks: Anthropic's key and version in their own headers", async () => {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((call, reply) => {
    seen.push(call.headers);
    reply.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const route = { baseUrl: `http://127.0.0.1:${port}/v1`, key: "k" };
  for (const protocol of ModelProtocol.options) expect(await checkModel(route, protocol)).toBeNull();
  const shown = seen.map(({ authorization, "x-api-key": key, "anthropic-version": version }) => ({
    authorization,
    key,
    version,
  }));
  const bearer = { authorization: "Bearer k", key: undefined, version: undefined };
  expect(shown).toEqual([bearer, bearer, { authorization: undefined, key: "k", version: "2023-06-01" }]);
});

test("the route that is named is looked at; one that is not there, or speaks otherwise, is said", async () => {
  const { url } = await model("k");
  const route = { baseUrl: url, key: { variable: "K" } } as const;
  const relay = {
    routes: [
      { ...route, name: "first", protocol: "messages", key: null },
      { ...route, name: "second", protocol: "chat-completions" },
    ],
  } as const;
  expect(await check(relay, "chat-completions", "second", { K: "k" })).toBeNull();
  for (const name of ["first", "none"])
    await expect(check(relay, "chat-completions", name, { K: "k" })).rejects.toMatchObject({
      code: "REQUEST_INVALID",
      message: expect.stringContaining(name) as string,
    });
});
