import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readEnvironment } from "../../../controller/cli/environment.ts";
import { killInTurn, within } from "../../../controller/cli/killed-turn.ts";
import { relayOf } from "../../../controller/cli/relay-settings.ts";
import { namedModel } from "../../../controller/cli/tour-model.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { until } from "../../support/until.ts";

const KEY = "sk-tour-secret";

/** Another controller that writes down what it got, and then does what the program says. */
function start(program: string, signal: AbortSignal = new AbortController().signal) {
  const root = temporaryDirectory();
  mkdirSync(join(root, "controller", "cli"), { recursive: true });
  const seen = join(root, "seen.json");
  writeFileSync(
    join(root, "controller", "cli", "main.ts"),
    `const { readFileSync, writeFileSync } = require("node:fs");
     const input = readFileSync(0, "utf8");
     writeFileSync(${JSON.stringify(seen)}, JSON.stringify({ pid: process.pid, argv: process.argv, input, env: process.env }));
     ${program}`,
  );
  const environment = { ...readEnvironment({}, process.env), root };
  const model = namedModel({
    relay: relayOf({ baseUrl: "http://127.0.0.1:1/v1", key: KEY, upstream: {} }),
    route: undefined,
    model: "m",
  });
  const turn = killInTurn({
    environment,
    model,
    directory: "/store",
    member: "m-1",
    message: "slow",
    signal,
  });
  turn.catch(() => undefined);
  return {
    turn,
    isThere: () => existsSync(seen) && readFileSync(seen, "utf8") !== "",
    seen: () =>
      JSON.parse(readFileSync(seen, "utf8")) as { pid: number; argv: string[]; input: string; env: object },
  };
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

test("the turn's first word is the moment of the kill; the key came on standard input alone", async () => {
  const made = start(`console.log('{"turn":"t-1","at":"text"}'); setInterval(() => {}, 1000);`);
  expect(await made.turn).toBe("t-1");
  const { pid, argv, input, env } = made.seen();
  expect(isAlive(pid)).toBe(false);
  expect(argv).toEqual(expect.arrayContaining(["tour-turn", "m-1", "slow", "--store", "/store"]));
  expect(JSON.parse(input).routes[0].key).toBe(KEY);
  expect(JSON.stringify([argv, env])).not.toContain(KEY);
});

test("a controller that ends before its turn begins is an error, not a wait", async () => {
  await expect(start("").turn).rejects.toMatchObject({ code: "INTERNAL" });
});

test("a tour that is stopped takes it along", async () => {
  const stopping = new AbortController();
  const made = start("setInterval(() => {}, 1000);", stopping.signal);
  await until("the other controller", made.isThere);
  stopping.abort();
  await expect(made.turn).rejects.toMatchObject({ code: "INTERNAL" });
  expect(isAlive(made.seen().pid)).toBe(false);
});

test("a wait has its limit", async () => {
  expect(await within(Promise.resolve(1), 1000)).toBe(1);
  await expect(within(new Promise(() => undefined), 5)).rejects.toThrow("no end within 5 ms");
});
