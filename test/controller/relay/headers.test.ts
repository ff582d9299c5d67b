import { expect, test } from "vitest";
import { answerHeaders, requestHeaders } from "../../../controller/relay/headers.ts";

const asked = (raw: string[], own: Record<string, string> = {}, method = "POST") =>
  requestHeaders(raw, { host: "p.example", method, own });

test("order, spelling and repeats stay; the host's name takes its place", () => {
  const raw = ["X-B", "1", "HOST", "h", "x-b", "2", "Content-Length", "3", "X-A", ""];
  expect(asked(raw)).toEqual(["X-B", "1", "HOST", "p.example", "x-b", "2", "Content-Length", "3", "X-A", ""]);
  expect(asked(["Content-Length", "3"])).toEqual(["Host", "p.example", "Content-Length", "3"]);
  expect(answerHeaders(["Set-Cookie", "a", "X", "1", "set-cookie", "b"])).toEqual([
    "Set-Cookie",
    "a",
    "X",
    "1",
    "set-cookie",
    "b",
  ]);
});

test("what belongs to one connection stays on it, what it lists included", () => {
  const raw = [
    "Connection",
    "close, X-Hop",
    "X-Hop",
    "1",
    "TE",
    "trailers",
    "Upgrade",
    "x",
    "Keep-Alive",
    "a",
    "X",
    "1",
  ];
  expect(answerHeaders(raw)).toEqual(["X", "1"]);
  expect(answerHeaders(["X-Hop", "1", "connection", "x-hop", "CONNECTION", " X "])).toEqual([]);
  expect(answerHeaders(["Trailer", "X-Sum"])).toEqual(["Trailer", "X-Sum"]);
});

test("a connection can't list away the length of its own body", () => {
  const raw = ["Host", "h", "Connection", "content-length, host", "Content-Length", "5"];
  expect(asked(raw)).toEqual(["Host", "p.example", "Content-Length", "5"]);
});

test("credentials of the client's stay here; the route's own headers take the place of the client's", () => {
  const raw = [
    "Host",
    "h",
    "Authorization",
    "Bearer t",
    "X-API-Key",
    "t",
    "Api-Key",
    "t",
    "X-Org",
    "mine",
    "Cookie",
    "c",
  ];
  const own = { "x-org": "ours", authorization: "Bearer k" };
  expect(asked(raw, own, "GET")).toEqual([
    "Host",
    "p.example",
    "Cookie",
    "c",
    "x-org",
    "ours",
    "authorization",
    "Bearer k",
  ]);
});

test("how the body ends is told as it was told; a method that has one always says so", () => {
  expect(asked(["Host", "h", "Transfer-Encoding", "chunked"], {}, "GET").slice(2)).toEqual([
    "Transfer-Encoding",
    "chunked",
  ]);
  expect(asked(["Host", "h"], {}, "POST").slice(2)).toEqual(["Content-Length", "0"]);
  expect(asked(["Host", "h"], {}, "GET").slice(2)).toEqual([]);
});
