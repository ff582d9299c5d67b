import { expect, test } from "vitest";
import { launchArguments, launchEnvironment } from "../../../../bridge/drivers/claude/launch-plan.ts";
import type { Slot } from "../../../../bridge/slots.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../../../protocol/permission-policy.ts";
import { LAUNCH } from "../../../support/samples.ts";

const SLOT = {
  home: "/slot/home",
  data: "/slot/data",
  config: "/slot/config",
  state: "/slot/state",
  cache: "/slot/cache",
} as Slot;
const NEW = { id: "11111111-2222-4333-8444-555555555555", resumes: null };

const launch = (permissions: MemberPolicy) => ({ ...LAUNCH, cli: "claude" as const, permissions });
const after = (args: string[], name: string) => args[args.indexOf(name) + 1];
const settings = (args: string[]) =>
  (JSON.parse(after(args, "--settings") ?? "") as { permissions: Record<string, string[]> }).permissions;

test("a new session is made under the id that we chose, a saved one is resumed, or forked into that id, and the model is pinned by name", () => {
  const fresh = launchArguments(launch(ALLOW_ALL), NEW, false);
  expect(fresh.slice(-2)).toEqual(["--session-id", NEW.id]);
  expect(after(fresh, "--model")).toBe("m1");
  const saved = launchArguments(launch(ALLOW_ALL), { ...NEW, resumes: NEW.id }, false);
  expect(saved.slice(-2)).toEqual(["--resume", NEW.id]);
  const parent = "99999999-2222-4333-8444-555555555555";
  const forked = launchArguments(launch(ALLOW_ALL), { ...NEW, resumes: parent }, false);
  expect(forked.slice(-5)).toEqual(["--resume", parent, "--fork-session", "--session-id", NEW.id]);
});

test("stdin and stdout carry JSON lines, and permissions come on them", () => {
  const args = launchArguments(launch(ALLOW_ALL), NEW, false);
  expect(args[0]).toBe("-p");
  for (const name of ["--input-format", "--output-format"]) expect(after(args, name)).toBe("stream-json");
  expect(after(args, "--permission-prompt-tool")).toBe("stdio");
  expect(args).toEqual(expect.arrayContaining(["--include-partial-messages", "--replay-user-messages"]));
});

test("law 15: the policy is heard: what it names must be asked for, and everything where it names no tool", () => {
  const asked = (policy: Partial<MemberPolicy>) =>
    settings(launchArguments(launch({ ...ALLOW_ALL, ...policy }), NEW, false)).ask;
  expect(asked({})).toEqual([]);
  expect(asked({ rules: [{ tool: "Read", pattern: "*", action: "deny" }] })).toEqual(["Read"]);
  expect(asked({ default: "deny" })).toEqual(["*"]);
});

test("law 15: what starts turns of its own is not offered by default; what moves the session is never", () => {
  const denied = (allows: boolean) => settings(launchArguments(launch(ALLOW_ALL), NEW, allows)).deny;
  expect(denied(false)).toEqual(expect.arrayContaining(["CronCreate", "ScheduleWakeup", "EnterWorktree"]));
  expect(denied(true)).toEqual(["EnterWorktree", "ExitWorktree"]);
});

const environment = (allowsBackground: boolean) =>
  launchEnvironment({
    slot: SLOT,
    launch: launch(ALLOW_ALL),
    modelUrl: "http://127.0.0.1:4000",
    modelKey: "hfm.token",
    allowsBackground,
    path: "/bin",
  });

test("law 14: the CLI gets its inlet and a placeholder, and no other model's name", () => {
  expect(environment(false)).toMatchObject({
    HOME: "/slot/home",
    PATH: "/bin",
    ANTHROPIC_BASE_URL: "http://127.0.0.1:4000",
    ANTHROPIC_API_KEY: "hfm.token",
    ANTHROPIC_SMALL_FAST_MODEL: "m1",
    ANTHROPIC_DEFAULT_HAIKU_MODEL: "m1",
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: "8000",
    CLAUDE_CODE_TMPDIR: "/slot/cache",
  });
});

test("nothing phones home or changes a prompt's prefix, and work behind a turn is off unless it is allowed", () => {
  const quiet = {
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
    CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS: "1",
  };
  const off = { CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1", CLAUDE_CODE_DISABLE_CRON: "1" };
  expect(environment(false)).toMatchObject({ ...quiet, ...off });
  expect(environment(true)).toMatchObject(quiet);
  for (const name of Object.keys(off)) expect(environment(true)).not.toHaveProperty(name);
  // Row D6: 0 would not switch it off on 2.1.220.
  expect(environment(false)).not.toHaveProperty("CLAUDE_CODE_RESUME_INTERRUPTED_TURN");
});
