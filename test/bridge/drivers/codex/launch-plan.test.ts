import { expect, test } from "vitest";
import {
  launchArguments,
  launchEnvironment,
  threadOptions,
  unofferedServers,
} from "../../../../bridge/drivers/codex/launch-plan.ts";
import type { Slot } from "../../../../bridge/slots.ts";
import type { Launch } from "../../../../protocol/launch.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { LAUNCH } from "../../../support/samples.ts";

const plan = (permissions: MemberPolicy = ALLOW_ALL): Launch => ({ ...LAUNCH, cli: "codex", permissions });
const rule = (tool: string, pattern: string, action: "allow" | "deny" | "ask") => ({ tool, pattern, action });

/** The settings as codex reads them. */
function settings(launch: Launch): Map<string, string> {
  const [command, ...args] = launchArguments(launch, "http://127.0.0.1:7");
  expect(command).toBe("app-server");
  const pairs = args.flatMap((each, at) => {
    expect(args.filter((_, index) => index % 2 === 0).every((flag) => flag === "-c")).toBe(true);
    return at % 2 === 0 ? [] : [each.split(/=(.*)/s).slice(0, 2) as [string, string]];
  });
  expect(new Set(pairs.map(([key]) => key)).size).toBe(pairs.length);
  return new Map(pairs);
}

test("the model is reached through the inlet alone, and nothing else is reached", () => {
  const map = settings(plan());
  expect(Object.fromEntries(map)).toMatchObject({
    model: '"m1"',
    model_provider: '"holdfast"',
    model_context_window: "200000",
    "model_providers.holdfast.base_url": '"http://127.0.0.1:7/v1"',
    "model_providers.holdfast.wire_api": '"responses"',
    "model_providers.holdfast.env_key": '"HOLDFAST_MODEL_KEY"',
    "model_providers.holdfast.requires_openai_auth": "false",
    check_for_update_on_startup: "false",
    "analytics.enabled": "false",
    "features.plugins": "false",
    "features.apps": "false",
    "features.goals": "false",
    "features.shell_snapshot": "false",
    "skills.bundled.enabled": "false",
    "features.default_mode_request_user_input": "true",
    web_search: '"disabled"',
    "history.persistence": '"none"',
  });
});

test("every try again is one that codex tells of", () => {
  const map = settings(plan());
  expect(map.get("model_providers.holdfast.request_max_retries")).toBe("0");
  expect(Number(map.get("model_providers.holdfast.stream_max_retries"))).toBeGreaterThan(4);
});

test("P43: a model's name with quotes, line ends and the like stays one value", () => {
  const name = 'a"b\\c\nd';
  const map = settings({ ...plan(), model: { ...LAUNCH.model, name } });
  expect(JSON.parse(map.get("model") ?? "")).toBe(name);
});

const ALL_OFF = ["view_image", "multi_agent", "multi_agent_v2", "unified_exec_tty"];
const POLICIES: Array<[string, MemberPolicy, "untrusted" | "on-request", string[]]> = [
  ["all allowed", ALLOW_ALL, "on-request", []],
  ["all denied", { ...ALLOW_ALL, default: "deny" }, "untrusted", ALL_OFF],
  ["all asked", { ...ALLOW_ALL, default: "ask" }, "untrusted", ALL_OFF],
  [
    "a command asked",
    { ...ALLOW_ALL, rules: [rule("exec_command", "git push*", "ask")] },
    "untrusted",
    ["unified_exec_tty"],
  ],
  [
    "a patch denied",
    { ...ALLOW_ALL, rules: [rule("apply_patch", "x", "deny")] },
    "untrusted",
    ["unified_exec_tty"],
  ],
  [
    "images denied",
    { ...ALLOW_ALL, rules: [rule("view_image", "*.png", "deny")] },
    "on-request",
    ["view_image"],
  ],
  [
    "input denied",
    { ...ALLOW_ALL, rules: [rule("write_stdin", "*", "deny")] },
    "on-request",
    ["unified_exec_tty"],
  ],
  [
    "denied, but for subagents and images",
    {
      ...ALLOW_ALL,
      default: "deny",
      rules: [rule("multi_agent_v1.spawn_agent", "*", "allow"), rule("view_image", "*", "allow")],
    },
    "untrusted",
    ["multi_agent_v2", "unified_exec_tty"],
  ],
  [
    "images allowed by a pattern alone are not wholly allowed",
    { ...ALLOW_ALL, default: "deny", rules: [rule("view_image", "a*", "allow")] },
    "untrusted",
    ALL_OFF,
  ],
  [
    "denied by pattern, then wholly allowed",
    { ...ALLOW_ALL, rules: [rule("view_image", "a*", "deny"), rule("view_image", "*", "allow")] },
    "on-request",
    [],
  ],
];

test.each(POLICIES)("%s: what is asked for, and what is not offered", (_, permissions, approval, off) => {
  const launch = plan(permissions);
  const given = [...settings(launch)].flatMap(([key, value]) =>
    key.startsWith("features.") && value !== "true" ? [key.slice("features.".length)] : [],
  );
  const always = ["plugins", "apps", "goals", "shell_snapshot"];
  expect(given.filter((feature) => !always.includes(feature)).sort()).toEqual([...off].sort());
  expect(threadOptions(launch)).toEqual({
    model: "m1",
    modelProvider: "holdfast",
    approvalPolicy: approval,
    sandbox: "danger-full-access",
  });
});

test("subagents that a model brings along can't be switched off, and get no thread to run in", () => {
  const map = settings(plan({ ...ALLOW_ALL, default: "deny" }));
  expect(map.get("features.multi_agent_v2")).toBe("{enabled=false,max_concurrent_threads_per_session=1}");
});

test("the environment has the slot's places and a stand-in of the key", () => {
  const slot = {
    home: "/s/home",
    data: "/s/data",
    config: "/s/config",
    state: "/s/state",
    cache: "/s/cache",
  };
  const environment = launchEnvironment(slot as Slot, "/bin", "hfm.token");
  expect(environment).toMatchObject({ HOME: "/s/home", PATH: "/bin", HOLDFAST_MODEL_KEY: "hfm.token" });
  expect(environment.CODEX_HOME).toBeUndefined();
});

test.each<[what: string, policy: Partial<MemberPolicy>, held: string[]]>([
  ["everything is allowed", {}, []],
  ["a rule is about a command", { rules: [rule("exec_command", "*", "deny")] }, []],
  ["the default asks", { default: "ask" }, ["a", "b"]],
  ["a tool of one is denied", { rules: [rule("a.touch", "x*", "deny")] }, ["a"]],
  [
    "everything is denied, and one tool is not",
    { default: "deny", rules: [rule("a.touch", "*", "allow")] },
    ["a", "b"],
  ],
  ["everything is allowed again", { default: "deny", rules: [rule("*", "*", "allow")] }, []],
])("law 9: codex runs tools of servers unasked, so they are not offered when %s", (_, policy, held) => {
  const settings = unofferedServers({ ...ALLOW_ALL, ...policy }, ["a", "b"]);
  expect(settings).toEqual(
    held.length === 0
      ? {}
      : { mcp_servers: Object.fromEntries(held.map((each) => [each, { enabled: false }])) },
  );
});
