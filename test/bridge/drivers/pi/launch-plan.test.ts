import { expect, test } from "vitest";
import type { Setup } from "../../../../bridge/drivers/pi/extension/words.ts";
import {
  extensionSetup,
  isSessionId,
  launchArguments,
  launchEnvironment,
} from "../../../../bridge/drivers/pi/launch-plan.ts";
import type { Slot } from "../../../../bridge/slots.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { LAUNCH } from "../../../support/samples.ts";

const SLOT: Slot = {
  member: "m-1",
  root: "/slots/m-1",
  home: "/slots/m-1/home",
  data: "/slots/m-1/data",
  config: "/slots/m-1/config",
  state: "/slots/m-1/state",
  cache: "/slots/m-1/cache",
  workspace: "/workspace",
  user: null,
  mark: { kind: "environment", variable: "HOLDFAST_SLOT", value: "box/m-1" },
  markValue: "box/m-1",
};

const setupFor = (permissions: MemberPolicy): Setup =>
  extensionSetup({
    launch: { ...LAUNCH, permissions },
    modelUrl: "http://127.0.0.1:1",
    modelKey: "hfm.token",
  });
const rule = (tool: string, action: "allow" | "ask" | "deny") => ({ tool, pattern: "*", action });

test("nothing is discovered that could expand a user's text; our extension is named", () => {
  expect(launchArguments(LAUNCH, "/opt/ext.mjs", null)).toEqual([
    "--mode",
    "rpc",
    "--provider",
    "holdfast",
    "--model",
    "m1",
    "--no-extensions",
    "--no-skills",
    "--no-prompt-templates",
    "--extension",
    "/opt/ext.mjs",
  ]);
});

test("a saved session is named by its id", () => {
  expect(launchArguments(LAUNCH, "/opt/ext.mjs", "01a2").slice(-2)).toEqual(["--session", "01a2"]);
});

test.each([
  ["01a22ce0-d5c1-7abd-8f7d-9f758ffc0bb3", true],
  ["a", true],
  ["", false],
  ["--fork", false],
  ["/tmp/x.jsonl", false],
  ["x.jsonl", false],
  ["..\\x", false],
  ["a b", false],
])("%j is an id of pi's: %s", (id, isOne) => {
  expect(isSessionId(id)).toBe(isOne);
});

test("pi stays offline, and its home is the slot's", () => {
  const environment = launchEnvironment({
    slot: SLOT,
    launch: LAUNCH,
    modelUrl: "http://127.0.0.1:4711",
    modelKey: "hfm.token",
    path: "/usr/bin",
  });
  expect(environment).toMatchObject({
    HOME: "/slots/m-1/home",
    PATH: "/usr/bin",
    PI_OFFLINE: "1",
    PI_TELEMETRY: "0",
    PI_SKIP_VERSION_CHECK: "1",
    JITI_FS_CACHE: "false",
  });
  expect(JSON.parse(environment.HOLDFAST_PI_SETUP ?? "")).toEqual({
    model: { name: "m1", contextTokens: 200_000, outputTokens: 8_000 },
    baseUrl: "http://127.0.0.1:4711/v1",
    key: "hfm.token",
    ask: ["bash"],
    offersQuestion: true,
  });
});

test("a policy that allows everything asks for nothing; one that does not asks for every tool", () => {
  expect(setupFor(ALLOW_ALL).ask).toEqual([]);
  expect(setupFor({ ...ALLOW_ALL, default: "deny" }).ask).toBe("all");
  expect(setupFor({ ...ALLOW_ALL, rules: [rule("*", "ask")] }).ask).toBe("all");
});

test("the question tool is offered unless the policy denies it: it needs no leave of the user to ask the user", () => {
  expect(setupFor({ ...ALLOW_ALL, default: "ask" }).offersQuestion).toBe(true);
  expect(setupFor({ ...ALLOW_ALL, default: "deny" }).offersQuestion).toBe(false);
  expect(setupFor({ ...ALLOW_ALL, rules: [rule("question", "deny")] }).offersQuestion).toBe(false);
  expect(setupFor({ ...ALLOW_ALL, default: "deny", rules: [rule("question", "ask")] }).offersQuestion).toBe(
    true,
  );
});
