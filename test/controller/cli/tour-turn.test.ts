import { expect, test } from "vitest";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const KEY = "sk-turn-secret";

test("it takes a member and a text; the key of the routes on its standard input is in nothing that it prints", async () => {
  const store = temporaryDirectory();
  const env = { DOCKER_HOST: DEAD_ENGINE, HOLDFAST_DIST: temporaryDirectory() };
  const words = ["tour-turn", "m-1", "hello"];
  const route = { name: "r", protocol: "chat-completions", baseUrl: "http://127.0.0.1:1/v1", key: KEY };
  const input = JSON.stringify({ routes: [route] });
  const unknown = await cli(words, { store, env, input });
  expect(unknown.code).toBe(1);
  expect(unknown.stderr).toContain("[MEMBER_UNKNOWN]");
  expect(unknown.stderr + unknown.stdout).not.toContain(KEY);
  expect((await cli(["tour-turn", "m-1"], { store, env })).code).toBe(2);
});
