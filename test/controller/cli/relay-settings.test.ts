import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readModel, readRelay, relayOf } from "../../../controller/cli/relay-settings.ts";
import { openRoutes } from "../../../controller/relay/routes.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const ROUTE = { name: "main", protocol: "messages", baseUrl: "https://p.example/v1" };

function routesFile(content: unknown): string {
  const path = join(temporaryDirectory(), "routes.json");
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

test("a model needs its address and its name; nothing at all is no model", () => {
  expect(readModel({}, {})).toBeNull();
  const route = { baseUrl: "http://127.0.0.1:1/v1", key: null, upstream: {} };
  expect(readModel({ "base-url": route.baseUrl, model: "m" }, {})).toEqual({
    relay: relayOf(route),
    route: undefined,
    model: "m",
  });
  expect(() => readModel({ model: "m" }, {})).toThrow("--model needs --base-url or --routes");
  for (const model of [{}, { model: "" }])
    expect(() => readModel({ "base-url": "http://a/v1", ...model }, {})).toThrow("--base-url needs --model");
});

test("a file names several routes, their keys by file beside it or by variable, and the way to them", () => {
  const path = routesFile({
    routes: [
      { ...ROUTE, keyVariable: "K", headers: { "x-org": "o" } },
      { ...ROUTE, name: "chat", protocol: "chat-completions", keyFile: "key" },
      { ...ROUTE, name: "free" },
    ],
    caFile: "ca.pem",
    proxy: "http://u:p@proxy:3128",
    limits: { drainMs: 0 },
  });
  const beside = (name: string) => path.replace("routes.json", name);
  expect(readModel({ routes: path, route: "chat", model: "m" }, {})).toEqual({
    relay: {
      routes: [
        { ...ROUTE, key: { variable: "K" }, headers: { "x-org": "o" } },
        { ...ROUTE, name: "chat", protocol: "chat-completions", key: { file: beside("key") } },
        { ...ROUTE, name: "free", key: null },
      ],
      upstream: { caFile: beside("ca.pem"), proxy: "http://u:p@proxy:3128" },
      limits: { drainMs: 0 },
    },
    route: "chat",
    model: "m",
  });
  expect(() => readModel({ routes: path }, {})).toThrow("--routes needs --model");
});

test("what a file of routes may not hold is said by its place, without what stands there", () => {
  const secret = "sk-secret-1";
  const cases: Array<[unknown, string]> = [
    ["no json", "no JSON object"],
    [{ routes: [] }, "routes"],
    [{ routes: [{ ...ROUTE, key: secret }] }, "routes.0"],
    [{ routes: [{ ...ROUTE, protocol: secret }] }, "routes.0.protocol"],
    [{ routes: [ROUTE], limits: { other: 1 } }, "limits"],
    [{ routes: [{ ...ROUTE, keyFile: "k", keyVariable: "K" }] }, "two keys for main"],
  ];
  for (const [content, why] of cases) {
    const read = () => readRelay({ routes: routesFile(content) }, {});
    expect(read).toThrow(expect.objectContaining({ code: "REQUEST_INVALID" }));
    expect(read).toThrow(why);
    expect(read).not.toThrow(secret);
  }
  expect(() => readRelay({ routes: "/nowhere.json" }, {})).toThrow("can't be read");
});

test("a file of routes and a single provider exclude one another; a route is one of a file's", () => {
  for (const name of ["base-url", "key-file", "key-variable", "ca-file", "proxy"])
    expect(() => readRelay({ routes: "r", [name]: "x" }, {})).toThrow(`--${name} and --routes exclude`);
  expect(() => readRelay({ route: "main" }, {})).toThrow("--route needs --routes");
});

test("one provider serves every protocol", () => {
  const relay = relayOf({ baseUrl: "http://127.0.0.1:1/v1", key: "k", upstream: {} });
  const routes = openRoutes(relay, {});
  expect(routes.of("messages", undefined)?.headers).toEqual({ "x-api-key": "k" });
  expect(routes.of("responses", undefined)?.headers).toEqual({ authorization: "Bearer k" });
  routes.close();
});
