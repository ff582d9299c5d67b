import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import * as z from "zod/mini";
import {
  type EngineApi,
  engineSocket,
  engineValue,
  expectOk,
  openEngine,
} from "../../../controller/sandboxes/engine-api.ts";
import { FakeEngine } from "../../support/fake-engine.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

function client(socketPath: string): EngineApi {
  const api = openEngine(socketPath);
  onTestFinished(() => api.close());
  return api;
}

const answer = (status: number, body: string) => ({ status, body: Buffer.from(body) });

test("the engine's address comes from DOCKER_HOST when it names a Unix socket, else it is the usual one", () => {
  expect(engineSocket("unix:///run/user/1/docker.sock")).toBe("/run/user/1/docker.sock");
  for (const other of [undefined, "", "tcp://127.0.0.1:2375", "unix://", "unix://relative"])
    expect(engineSocket(other)).toBe("/var/run/docker.sock");
});

test("a call names the API's version, sends its body as JSON, and leaves the status to the caller", async () => {
  const engine = await FakeEngine.start();
  engine.override = ({ path }) => (path === "/x" ? { status: 418, body: "tea" } : undefined);
  const api = client(engine.socketPath);
  const { status, body } = await api.call("POST", "/x?a=b", { body: { größe: 1 } });
  expect([status, body.toString()]).toEqual([418, "tea"]);
  expect(engine.calls[0]).toMatchObject({ method: "POST", path: "/x", body: { größe: 1 } });
  expect(engine.calls[0]?.query.get("a")).toBe("b");
});

test("an answer's bytes are kept as they are", async () => {
  const engine = await FakeEngine.start();
  const bytes = Buffer.from([0, 255, 10, 13, 200]);
  engine.override = () => ({ status: 200, body: bytes });
  expect((await client(engine.socketPath).call("GET", "/x")).body.equals(bytes)).toBe(true);
});

test("an engine that is not there, hangs up, or stops in the middle is missing, with what was asked", async () => {
  const absent = client(join(temporaryDirectory(), "none.sock"));
  await expect(absent.call("GET", "/info?x=1")).rejects.toMatchObject({
    code: "ENGINE_MISSING",
    message: expect.stringMatching(/^GET \/v1\.41\/info: .*ENOENT/),
  });
  const engine = await FakeEngine.start();
  for (const reply of ["reset", "half"] as const) {
    engine.override = () => reply;
    await expect(client(engine.socketPath).call("GET", "/x")).rejects.toMatchObject({
      code: "ENGINE_MISSING",
    });
  }
});

test("an engine that does not answer is given up after the call's limit", async () => {
  const engine = await FakeEngine.start();
  engine.override = () => "hang";
  const api = client(engine.socketPath);
  await expect(api.call("GET", "/x", { limitMs: 30 })).rejects.toMatchObject({
    code: "ENGINE_MISSING",
    message: expect.stringContaining("no answer within 30 ms"),
  });
  engine.override = () => undefined;
  expect(await api.ping()).toBe(true);
});

test("a ping tells whether an engine answers, and never throws for one that does not", async () => {
  const engine = await FakeEngine.start();
  const api = client(engine.socketPath);
  expect(await api.ping()).toBe(true);
  engine.override = () => ({ status: 500 });
  expect(await api.ping()).toBe(false);
  engine.override = () => "reset";
  expect(await api.ping()).toBe(false);
});

test("many calls at once share connections and are all answered", async () => {
  const engine = await FakeEngine.start();
  engine.override = ({ path }) => ({ status: 200, body: path });
  const api = client(engine.socketPath);
  const paths = Array.from({ length: 50 }, (_, n) => `/n${n}`);
  const bodies = await Promise.all(paths.map(async (path) => (await api.call("GET", path)).body.toString()));
  expect(bodies).toEqual(paths);
});

test("an error's status becomes ENGINE_ERROR with the engine's own message", () => {
  expect(() => expectOk("start", answer(204, ""))).not.toThrow();
  expect(() => expectOk("stop", answer(304, ""))).not.toThrow();
  const thrown = (body: string): unknown => {
    try {
      return expectOk("start the container", answer(500, body));
    } catch (error) {
      return error;
    }
  };
  expect(thrown('{"message":"no space left"}')).toMatchObject({
    code: "ENGINE_ERROR",
    message: "start the container: 500 no space left",
  });
  expect(thrown("plain words")).toMatchObject({ message: "start the container: 500 plain words" });
  expect(thrown('{"message":7}')).toMatchObject({ message: 'start the container: 500 {"message":7}' });
  expect(thrown("null")).toMatchObject({ code: "ENGINE_ERROR" });
  expect((thrown("x".repeat(10_000)) as Error).message.length).toBeLessThan(600);
});

test("an answer that is no JSON, or not what was expected, is an error of the engine", () => {
  const Shape = z.object({ a: z.number() });
  expect(engineValue("look", answer(200, '{"a":1,"b":2}'), Shape)).toEqual({ a: 1 });
  for (const [status, body, message] of [
    [200, "", "look: the engine's answer is no JSON"],
    [200, "<html>", "look: the engine's answer is no JSON"],
    [200, '{"a":', "look: the engine's answer is no JSON"],
    [200, '{"a":"1"}', "look: the engine answers unexpectedly (a)"],
    [200, "null", "look: the engine answers unexpectedly ()"],
    [500, '{"message":"m"}', "look: 500 m"],
  ] as const) {
    expect(() => engineValue("look", answer(status, body), Shape)).toThrow(
      expect.objectContaining({ code: "ENGINE_ERROR", message }),
    );
  }
});

test("P44: an engine without room says so in its own words, and that is a full disk", () => {
  const body = JSON.stringify({ message: "write /x: no space left on device" });
  expect(() => expectOk("start the container", answer(500, body))).toThrow(
    expect.objectContaining({
      code: "DISK_FULL",
      message: "start the container: 500 write /x: no space left on device",
    }),
  );
});
