import { expect, test } from "vitest";
import { checkedBase, everyProtocol, openRoutes, type RelayRoute } from "../../../controller/relay/routes.ts";

const ROUTE: RelayRoute = {
  name: "main",
  protocol: "messages",
  baseUrl: "https://p.example/anthropic/v1/",
  key: { variable: "KEY" },
  headers: { "x-org": "o" },
};
const opened = (...routes: RelayRoute[]) => openRoutes({ routes }, { KEY: "k" });
const invalid = expect.objectContaining({ code: "REQUEST_INVALID" });

test("a member takes the route that it names, or the first of its protocol, and none of another protocol", () => {
  const routes = opened(
    ROUTE,
    { ...ROUTE, name: "second" },
    { ...ROUTE, name: "chat", protocol: "chat-completions" },
  );
  expect(routes.of("messages", undefined)?.name).toBe("main");
  expect(routes.of("messages", "second")?.name).toBe("second");
  expect(routes.of("chat-completions", undefined)?.name).toBe("chat");
  expect(routes.of("responses", undefined)).toBeNull();
  expect(routes.of("messages", "chat")).toBeNull();
  expect(routes.of("messages", "none")).toBeNull();
  routes.close();
});

test("a route knows its paths and headers, the key's in the one of its protocol", () => {
  const route = opened(ROUTE).of("messages", undefined);
  expect(route?.pathOf("/messages?x=1")).toBe("/anthropic/v1/messages?x=1");
  expect(route?.headers).toEqual({ "x-org": "o", "x-api-key": "k" });
  const chat = opened({ ...ROUTE, protocol: "chat-completions", headers: {} }).of(
    "chat-completions",
    undefined,
  );
  expect(chat?.headers).toEqual({ authorization: "Bearer k" });
});

test("one provider can be all three", () => {
  const routes = openRoutes({ routes: everyProtocol({ baseUrl: "http://127.0.0.1:1/v1", key: null }) }, {});
  for (const protocol of ["messages", "responses", "chat-completions"] as const)
    expect(routes.of(protocol, undefined)).toMatchObject({ name: protocol, headers: {} });
});

test("routes that can't be are refused when the host opens", () => {
  expect(() => opened(ROUTE, ROUTE)).toThrow("two routes are called main");
  for (const changes of [
    { name: "a b" },
    { baseUrl: "ftp://x" },
    { key: { variable: "MISSING" } },
    { headers: { "bad name": "x" } },
    { headers: { "x-a": "line\nend" } },
    { headers: { Authorization: "x" } },
    { headers: { "Content-Length": "1" } },
  ])
    expect(() => opened({ ...ROUTE, ...changes })).toThrow(invalid);
});

test("a base URL is an address alone, and what else it carries is not told", () => {
  expect(checkedBase("http://[::1]:1/x").host).toBe("[::1]:1");
  for (const url of [
    "https://u:sk-1@p.example/v1",
    "https://p.example/v1?key=sk-1",
    "https://p.example/#sk-1",
    "sk-1",
  ]) {
    expect(() => checkedBase(url)).toThrow(invalid);
    expect(() => checkedBase(url)).not.toThrow("sk-1");
  }
});
