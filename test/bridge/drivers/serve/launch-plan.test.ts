import { expect, test } from "vitest";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";
import { launchEnvironment, serverConfig } from "../../../../bridge/drivers/serve/launch-plan.ts";
import type { Slot } from "../../../../bridge/slots.ts";
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

const environment = (launch = LAUNCH) =>
  launchEnvironment({
    traits: OPENCODE,
    slot,
    launch,
    modelUrl: "http://127.0.0.1:8888",
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

test("the configuration pins model and provider, shares nothing and updates nothing", () => {
  const config = serverConfig(LAUNCH, "http://127.0.0.1:8888");
  expect(config).toMatchObject({
    model: "holdfast/m1",
    small_model: "holdfast/m1",
    share: "disabled",
    autoupdate: false,
    permission: { bash: "ask", edit: "ask" },
    provider: {
      holdfast: {
        options: { baseURL: "http://127.0.0.1:8888/v1" },
        models: { m1: { limit: { context: 200_000, output: 8_000 } } },
      },
    },
  });
  expect(JSON.parse(environment().OPENCODE_CONFIG_CONTENT ?? "")).toEqual(config);
});

test("no tool that must ask is ever allowed for good", () => {
  const config = serverConfig({ ...LAUNCH, permissions: { policy: "allow", askedTools: ["bash"] } }, "u");
  expect(JSON.stringify(config)).not.toContain("always");
  expect(config).toMatchObject({ permission: { bash: "ask" } });
  expect(serverConfig({ ...LAUNCH, permissions: { policy: "allow", askedTools: [] } }, "u")).toMatchObject({
    permission: {},
  });
});

test("the same launch gives the same bytes: a restart changes no request", () => {
  expect(environment()).toEqual(environment());
});
