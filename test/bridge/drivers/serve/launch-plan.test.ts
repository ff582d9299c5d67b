import { expect, test } from "vitest";
import { KILO } from "../../../../bridge/drivers/kilo/traits.ts";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { launchEnvironment, serverConfig } from "../../../../bridge/drivers/serve/launch-plan.ts";
import type { Slot } from "../../../../bridge/slots.ts";
import type { Launch } from "../../../../protocol/launch.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { LAUNCH } from "../../../support/samples.ts";

const slot: Slot = {
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

const environment = (launch = LAUNCH, traits = OPENCODE) =>
  launchEnvironment({
    traits,
    slot,
    launch,
    modelUrl: "http://127.0.0.1:8888",
    modelKey: "hfm.token",
    password: "the-password",
    path: "/usr/bin",
  });

test("everything that the CLI writes goes into its slot", () => {
  expect(environment()).toMatchObject({
    HOME: slot.home,
    XDG_DATA_HOME: slot.data,
    XDG_CONFIG_HOME: slot.config,
    XDG_STATE_HOME: slot.state,
    XDG_CACHE_HOME: slot.cache,
  });
});

test("the environment holds exactly these names: nothing of the bridge's own leaks in", () => {
  expect(Object.keys(environment()).sort()).toEqual([
    "DO_NOT_TRACK",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_VALUE_0",
    "HOME",
    "LANG",
    "NO_PROXY",
    "OPENCODE_CONFIG_CONTENT",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS",
    "OPENCODE_SERVER_PASSWORD",
    "PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "no_proxy",
  ]);
});

test("the password is in its own variable and nowhere else", () => {
  const { OPENCODE_SERVER_PASSWORD: password, ...rest } = environment();
  expect(password).toBe("the-password");
  expect(JSON.stringify(rest)).not.toContain("the-password");
});

const config = (launch = LAUNCH, traits = OPENCODE) =>
  serverConfig({ traits, launch, modelUrl: "http://127.0.0.1:8888", modelKey: "hfm.token" });

test("the configuration pins model and provider, shares nothing and updates nothing", () => {
  expect(config()).toMatchObject({
    model: "holdfast/m1",
    small_model: "holdfast/m1",
    share: "disabled",
    autoupdate: false,
    provider: {
      holdfast: {
        options: { baseURL: "http://127.0.0.1:8888/v1", apiKey: "hfm.token" },
        models: { m1: { limit: { context: 200_000, output: 8_000 } } },
      },
    },
  });
  expect(JSON.parse(environment().OPENCODE_CONFIG_CONTENT ?? "")).toEqual(config());
});

const policy = (changes: Partial<MemberPolicy>) => ({ ...LAUNCH, permissions: { ...ALLOW_ALL, ...changes } });
const asked = (launch: Launch, traits = OPENCODE) =>
  (config(launch, traits) as { permission: Record<string, string> }).permission;

test("the CLI must ask for what the policy wants to hear of, and nothing is ever allowed for good", () => {
  expect(asked(policy({}))).toEqual({});
  expect(asked(policy({ default: "deny" }))).toEqual({ "*": "ask" });
  expect(asked(policy({ default: "ask" }))).toEqual({ "*": "ask" });
  const rules: MemberPolicy["rules"] = [
    { tool: "edit", pattern: "*.env", action: "deny" },
    { tool: "bash", pattern: "git *", action: "ask" },
    { tool: "bash", pattern: "rm *", action: "deny" },
  ];
  expect(asked(policy({ rules }))).toEqual({ bash: "ask", edit: "ask" });
  expect(asked(policy({ rules: [{ tool: "*", pattern: "*", action: "allow" }] }))).toEqual({ "*": "ask" });
  expect(JSON.stringify(config(policy({ rules })))).not.toContain("always");
});

test("tools that outlive their turn are denied unless the member allows background work", () => {
  const denied = { schedule_wakeup: "deny", background_process: "deny" };
  expect(asked(policy({}), KILO)).toEqual(denied);
  expect(asked({ ...policy({}), background: true }, KILO)).toEqual({});
  // Behind the rule for every tool: of two that fit, the CLI takes the later one.
  expect(Object.entries(asked(policy({ default: "ask" }), KILO))[0]).toEqual(["*", "ask"]);
  expect(asked(policy({ default: "ask" }), KILO)).toEqual({ "*": "ask", ...denied });
});

test("Kilo gets its own names for the same things, and none of OpenCode's", () => {
  const kilo = environment(LAUNCH, KILO);
  expect(kilo.KILO_SERVER_PASSWORD).toBe("the-password");
  expect(JSON.parse(kilo.KILO_CONFIG_CONTENT ?? "")).toEqual(config(LAUNCH, KILO));
  expect(Object.keys(kilo).filter((name) => name.startsWith("OPENCODE_"))).toEqual([]);
});

test("P38: the model's inlet is never reached through a proxy", () => {
  expect(environment()).toMatchObject({ NO_PROXY: "127.0.0.1,localhost", no_proxy: "127.0.0.1,localhost" });
});

test("the same launch gives the same bytes: a restart changes no request", () => {
  expect(environment()).toEqual(environment());
});
