/** Codex 0.171.0: what it asks for under each policy, and what it does not offer where it would not ask. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { MemberOptions } from "../../controller/store/records.ts";
import { ALLOW_ALL, type MemberPolicy } from "../../protocol/permission-policy.ts";
import { play } from "../support/turns.ts";
import { CODEX_MEMBER, CODEX_SUBJECT } from "./suite/codex-subject.ts";
import { fileIn, openStage } from "./suite/subject.ts";

const stage = openStage(CODEX_SUBJECT);

const exec = (cmd: string, more: Record<string, unknown> = {}) => ({
  name: "exec_command",
  arguments: { cmd, ...more },
});
const patch = (path: string) => `*** Begin Patch\n*** Add File: ${path}\n+patched\n*** End Patch`;
const deny: MemberPolicy = { ...ALLOW_ALL, default: "deny" };

const member = (permissions: MemberPolicy, more: Partial<MemberOptions> = {}) =>
  stage().fresh({ permissions, ...more });

test("law 9: every command is asked for, read-only ones too, by what the model wrote, whatever it is wrapped in", async () => {
  const { t } = stage();
  const commands = [
    "ls",
    "pwd; true",
    "cat /etc/hostname | head -1",
    "git status",
    "rg --files",
    `echo "it's" 'a "test"' $HOME \\$x`,
    "printf '%s\\n' a b",
    "cat <<'EOF'\nhere 'and' \"there\"\nEOF",
    "sed -n 1,2p none",
  ];
  t.model.script("Look around", [
    { kind: "reply", toolCalls: commands.map((each) => exec(each)) },
    { kind: "reply", toolCalls: [exec("ls", { login: false }), exec("ls -a", { shell: "/bin/sh" })] },
    "Looked.",
  ]);
  const turn = await play(t, member(deny), "Look around.");
  expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Looked."] });
  const asked = turn.all("turn.permission_asked").map(({ request }) => request);
  expect(asked.map(({ permission }) => permission)).toEqual(asked.map(() => "exec_command"));
  expect(asked.map(({ patterns }) => patterns[0]).sort()).toEqual([...commands, "ls", "ls -a"].sort());
  expect(turn.all("turn.permission_closed").map(({ reply, result }) => `${reply} ${result}`)).toEqual(
    asked.map(() => "reject confirmed"),
  );
});

test("law 9: a rule by pattern lets its command run, and no other", async () => {
  const { t } = stage();
  t.model.script("Write two", [
    { kind: "reply", toolCalls: [exec("printf 1 > rule-1.txt"), exec("touch rule-2.txt")] },
    "Written.",
  ]);
  const rules: MemberPolicy["rules"] = [{ tool: "exec_command", pattern: "printf *", action: "allow" }];
  await play(t, member({ ...deny, rules }), "Write two.");
  expect([fileIn(stage(), "rule-1.txt"), fileIn(stage(), "rule-2.txt")]).toEqual(["1", null]);
});

test("where everything is allowed codex refuses nothing by itself: a removal is asked for, and allowed", async () => {
  const { t, workspace } = stage();
  mkdirSync(`${workspace}/removed/deep`, { recursive: true });
  writeFileSync(`${workspace}/removed/deep/file`, "");
  t.model.script("Remove it", [
    { kind: "reply", toolCalls: [exec("rm -rf removed"), exec("printf x > unasked.txt")] },
    "Removed.",
  ]);
  const turn = await play(t, member(ALLOW_ALL), "Remove it.");
  expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Removed."] });
  expect(existsSync(`${workspace}/removed`)).toBe(false);
  expect(fileIn(stage(), "unasked.txt")).toBe("x");
  expect(turn.all("turn.permission_asked").map(({ request }) => request.patterns)).toEqual([
    ["rm -rf removed"],
  ]);
});

test("law 9: a patch asks under its own word, by the paths that it changes", async () => {
  const { t } = stage();
  const command = (path: string) => exec(`apply_patch <<'EOF'\n${patch(path)}\nEOF`);
  t.model.script("Patch two", [
    { kind: "reply", toolCalls: [command("open/a.txt"), command("secret/b.txt")] },
    "Patched.",
  ]);
  const rules: MemberPolicy["rules"] = [{ tool: "apply_patch", pattern: "secret/*", action: "deny" }];
  const turn = await play(t, member({ ...ALLOW_ALL, rules }), "Patch two.");
  expect(turn.settlement.outcome).toBe("completed");
  const asked = turn.all("turn.permission_asked").map(({ request }) => request);
  expect(asked.map(({ permission, patterns }) => `${permission} ${patterns.join()}`).sort()).toEqual([
    "apply_patch open/a.txt",
    "apply_patch secret/b.txt",
  ]);
  expect([fileIn(stage(), "open/a.txt"), fileIn(stage(), "secret/b.txt")]).toEqual(["patched\n", null]);
});

test("law 9: the patch tool that a known model is offered asks in the same way", async () => {
  const { t } = stage();
  t.model.script("Patch by tool", [
    { kind: "reply", toolCalls: [{ name: "apply_patch", arguments: patch("tool.txt") }] },
    { kind: "reply", toolCalls: [{ name: "apply_patch", arguments: patch("tool-2.txt") }] },
    "Patched.",
  ]);
  const rules: MemberPolicy["rules"] = [{ tool: "apply_patch", pattern: "tool.txt", action: "allow" }];
  const model = { ...CODEX_MEMBER.model, name: "gpt-5.5" };
  const turn = await play(t, member({ ...deny, rules }, { model }), "Patch by tool.");
  expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Patched."] });
  expect(t.model.mainRequests()[0]?.request?.tools).toContain("apply_patch");
  expect(turn.all("turn.permission_closed").map(({ reply }) => reply)).toEqual(["once", "reject"]);
  expect(turn.all("turn.tool").map(({ tool, status }) => `${tool} ${status}`)).toEqual([
    "apply_patch running",
    "apply_patch completed",
    "apply_patch running",
    "apply_patch failed",
  ]);
  expect([fileIn(stage(), "tool.txt"), fileIn(stage(), "tool-2.txt")]).toEqual(["patched\n", null]);
});

test("law 15: what codex would run unasked is not offered where the policy has a word on it", async () => {
  const { t } = stage();
  const agents = ["close_agent", "resume_agent", "send_input", "spawn_agent", "wait_agent"];
  const always = ["exec_command", "request_user_input", "write_stdin"];
  const offered = async (permissions: MemberPolicy) => {
    t.model.reset();
    await play(t, member(permissions), "What is there?");
    return [...(t.model.mainRequests()[0]?.request?.tools ?? [])].sort();
  };
  expect(await offered(ALLOW_ALL)).toEqual(
    [...always, ...agents.map((name) => `multi_agent_v1.${name}`), "view_image"].sort(),
  );
  expect(await offered({ ...ALLOW_ALL, default: "ask" })).toEqual(always);
  expect(await offered({ ...deny, rules: [{ tool: "view_image", pattern: "*", action: "allow" }] })).toEqual(
    [...always, "view_image"].sort(),
  );
});

test("law 15: a command that was allowed can't be fed with others: it has no terminal, and its input is closed", async () => {
  const { t } = stage();
  t.model.script("Open a shell", [
    {
      kind: "reply",
      toolCalls: [exec("bash", { tty: true }), exec("cat > fed.txt; sleep 60", { yield_time_ms: 250 })],
    },
    "Opened.",
  ]);
  const rules: MemberPolicy["rules"] = [{ tool: "exec_command", pattern: "*", action: "ask" }];
  const policy: MemberPolicy = { ...ALLOW_ALL, rules, askLimitMs: 200, askDefault: "allow" };
  // So that the command lives on into the next turn.
  const feeder = member(policy, { background: true });
  const results = () =>
    t.model
      .mainRequests()
      .at(-1)
      ?.request?.rows.filter(({ role }) => role === "tool")
      .map(({ text }) => text)
      .join("\n") ?? "";
  expect((await play(t, feeder, "Open a shell.")).settlement.outcome).toBe("completed");
  expect(results()).toContain("TTY execution is disabled");
  const session = Number(/session ID (\d+)/.exec(results())?.[1]);
  expect(session).toBeGreaterThan(0);
  t.model.script("Feed it", [
    {
      kind: "reply",
      toolCalls: [{ name: "write_stdin", arguments: { session_id: session, chars: "fed\n" } }],
    },
    "Fed.",
  ]);
  expect((await play(t, feeder, "Feed it.")).settlement).toMatchObject({ context: "LIVE", parts: ["Fed."] });
  expect(results()).toContain("stdin is closed");
  expect(fileIn(stage(), "fed.txt")).toBe("");
});

test("law 9: tools of a server from the member's own settings do not run behind the policy's back, after a resume either", async () => {
  const { t, sandbox, directory, fresh } = stage().apart();
  const ran = `${directory}/ran`;
  const server = fileURLToPath(new URL("../stand-ins/mcp-server.ts", import.meta.url));
  const members = [ALLOW_ALL, deny].map((permissions) => fresh({ permissions }));
  for (const id of members) {
    const home = `${directory}/slots/${id}/home/.codex`;
    mkdirSync(home, { recursive: true });
    const lines = [
      "[mcp_servers.own]",
      `command = ${JSON.stringify(process.execPath)}`,
      `args = ${JSON.stringify([server, ran])}`,
    ];
    writeFileSync(`${home}/config.toml`, lines.join("\n"));
  }
  for (const context of ["NEW", "RESTORED"]) {
    for (const [at, id] of members.entries()) {
      const text = `Touch ${context} ${at}`;
      t.model.script(text, [
        { kind: "reply", toolCalls: [{ name: "mcp__own.touch", arguments: {} }] },
        "Went on.",
      ]);
      expect((await play(t, id, text)).settlement).toMatchObject({ outcome: "completed", context });
      expect(existsSync(ran), text).toBe(at === 0);
      rmSync(ran, { force: true });
    }
    await t.host.stopSandbox(sandbox);
  }
});
