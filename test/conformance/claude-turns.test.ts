/** What is Claude Code's own in a turn, on the real CLI in both pinned versions under the whole stack: texts, permissions, aborts, surroundings. */
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import { follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { CLAUDE_VERSIONS, claudeSubject } from "./suite/claude-subject.ts";
import { processesOf } from "./suite/processes.ts";
import { abortOf, fileIn, openStage, settled, spoken } from "./suite/subject.ts";

const read = (path: string) => ({ name: "Read", arguments: { file_path: path } });

for (const version of CLAUDE_VERSIONS) {
  const subject = claudeSubject(version);
  const stage = openStage(subject, { claude: version });
  const { shell } = subject.tools;

  test(`law 1, ${version}: texts that look like a command, a mention or a mode reach the model byte for byte`, async () => {
    const { t, fresh } = stage();
    const member = fresh();
    const texts = [
      "/etc/hosts looks wrong",
      "!ls",
      "# x",
      "@missing.txt",
      "a\r\nb\r\n",
      "  blanks  \n",
      "/ x",
    ];
    for (const text of texts) {
      t.model.reset();
      expect((await play(t, member, text)).settlement, text).toMatchObject({ outcome: "completed" });
      expect(t.model.mainRequests(), text).toHaveLength(1);
      expect(spoken(stage(), t.model.mainRequests()[0]).at(-1)).toBe(text);
    }
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual(texts);
  });

  test(`law 1, ${version}: a refused text makes no call of the model, and the next turn is clean; so does a command of the workspace's own`, async () => {
    const { t, fresh, workspace } = stage();
    mkdirSync(`${workspace}/.claude/commands`, { recursive: true });
    writeFileSync(`${workspace}/.claude/commands/a.b.md`, "Do something else: $ARGUMENTS");
    const member = fresh();
    expect(() => t.host.submit(member, "/help me")).toThrow(
      expect.objectContaining({ code: "MESSAGE_IS_COMMAND" }),
    );
    const refused = await play(t, member, "/a.b the text");
    expect(refused.settlement).toMatchObject({
      outcome: "not_sent",
      settled: false,
      error: { code: "CLI_REFUSED", message: expect.stringContaining("/a.b") },
    });
    expect(t.model.requests()).toEqual([]);
    const next = await play(t, member, "And now?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "NEW" });
    expect(spoken(stage(), t.model.mainRequests()[0])).toEqual(["And now?"]);
  });

  test(`law 1, ${version}: a file that a text mentions is added by the CLI itself, apart from the text`, async () => {
    const { t, fresh, workspace } = stage();
    writeFileSync(`${workspace}/here.txt`, "what is in the file");
    await play(t, fresh(), "Look at @here.txt now.");
    const [request] = t.model.mainRequests();
    expect(spoken(stage(), request)).toEqual(["Look at @here.txt now."]);
    expect(request?.bodyText).toContain("what is in the file");
  });

  test(`law 15, ${version}: a policy is heard for tools that the CLI would run unasked, and by subagents`, async () => {
    const { t, fresh, workspace } = stage();
    writeFileSync(`${workspace}/secret.txt`, "the secret");
    const rules = [{ tool: "Read", pattern: "*secret*", action: "deny" as const }];
    const member = fresh({ permissions: { ...ALLOW_ALL, rules } });
    const calls = [read(`${workspace}/secret.txt`), read(`${workspace}/x/../secret.txt`)];
    t.model.script("Read it", [{ kind: "reply", toolCalls: calls }, "Could not."]);
    const turn = await play(t, member, "Read it.");
    expect(turn.all("turn.permission_closed").map(({ reply, by }) => `${reply} ${by}`)).toEqual([
      "reject policy",
      "reject policy",
    ]);
    expect(t.model.mainRequests().at(-1)?.bodyText).not.toContain("the secret");
    const denying = fresh({ permissions: { ...ALLOW_ALL, default: "deny" } });
    t.model.script("List it", [{ kind: "reply", toolCalls: [shell("ls")] }, "Could not either."]);
    const denied = await play(t, denying, "List it.");
    expect(denied.all("turn.permission_asked")[0]?.request).toMatchObject({
      permission: "Bash",
      patterns: ["ls"],
    });
    expect(denied.all("turn.tool").at(-1)).toMatchObject({ status: "failed" });
  });

  test(`law 9, ${version}: two requests at once are two, and each gets its own answer, in any order`, async () => {
    const { t, fresh, workspace } = stage();
    for (const name of ["one", "two"]) writeFileSync(`${workspace}/${name}.txt`, `text of ${name}`);
    const rules = [{ tool: "Read", pattern: "*", action: "ask" as const }];
    const member = fresh({ permissions: { ...ALLOW_ALL, rules } });
    const calls = ["one", "two"].map((name) => read(`${workspace}/${name}.txt`));
    t.model.script("Read both", [{ kind: "reply", toolCalls: calls }, "Both."]);
    const turn = follow(t.host.submit(member, "Read both."));
    const asked = () => turn.all("turn.permission_asked");
    await until("two requests", () => asked().length === 2, 20_000);
    for (const [at, reply] of [[1, "reject"] as const, [0, "once"] as const]) {
      const { session, request } = asked()[at]?.request ?? { session: "", request: "" };
      await t.host.answerPermission({ turn: turn.handle.id, session, request, reply });
    }
    expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Both."] });
    const body = t.model.mainRequests().at(-1)?.bodyText;
    expect(body).toContain("text of one");
    expect(body).not.toContain("text of two");
  });

  test(`law 6, P13, ${version}: an abort with a permission or a question open withdraws it first, drops a late answer, and the process stays`, async () => {
    const { t, asked } = stage();
    const member = await settled(stage(), asked("ask"));
    t.model.script("Ask and wait", [{ kind: "reply", toolCalls: [shell("printf x > late.txt")] }]);
    const turn = follow(t.host.submit(member, "Ask and wait."));
    const { request } = await turn.heard("turn.permission_asked");
    expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
    expect(turn.all("turn.permission_closed")).toEqual([
      expect.objectContaining({ request: request.request, result: "withdrawn", reply: null, by: null }),
    ]);
    const { session, request: id } = request;
    await expect(
      t.host.answerPermission({ turn: turn.handle.id, session, request: id, reply: "once" }),
    ).rejects.toMatchObject({ code: "ABORT_NO_TURN" });
    t.model.script("Ask a question", [
      { kind: "reply", toolCalls: [subject.tools.question?.() ?? shell("")] },
    ]);
    const question = follow(t.host.submit(member, "Ask a question."));
    await question.heard("turn.question_asked");
    expect(await abortOf(question)).toMatchObject({ outcome: "aborted", settled: true });
    expect(question.all("turn.question_closed")).toEqual([expect.objectContaining({ result: "withdrawn" })]);
    expect((await play(t, member, "Still there?")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
    expect(fileIn(stage(), "late.txt")).toBeNull();
  });

  test(`S21, ${version}: a restart changes neither system prompt nor tools, and what moves the session is not offered`, async () => {
    const own = stage().apart();
    const { t, fresh, sandbox } = own;
    const member = await settled(own, fresh());
    await play(t, member, "Before the restart.");
    await t.host.stopSandbox(sandbox);
    await play(t, member, "Behind the restart.");
    const prefixes = t.model.mainRequests().map(({ bodyText }) => {
      const { system, tools } = JSON.parse(bodyText ?? "{}") as Record<string, unknown>;
      // Where the cache begins moves from turn to turn.
      return JSON.stringify({ system, tools }).replaceAll(/,?"cache_control":\{[^}]*\}/g, "");
    });
    expect(prefixes).toHaveLength(2);
    expect(prefixes[1]).toBe(prefixes[0]);
    const offered = t.model.mainRequests()[0]?.request?.tools ?? [];
    expect(offered).not.toContain("EnterWorktree");
    expect(offered).toContain("Bash");
  });

  test(`law 14, ${version}: every connection of the CLI is to the loopback, and neither argv nor environment holds a key`, async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Stay connected", [{ kind: "hang" }]);
    const turn = follow(t.host.submit(member, "Stay connected."));
    await t.model.waitForRequest(({ ending }) => ending === "open", 20_000);
    const [cli] = await processesOf(sandbox, member, subject.processText);
    const pid = cli?.pid ?? 0;
    const remotes = connectionsOf(pid);
    expect(remotes.length).toBeGreaterThan(0);
    expect(new Set(remotes)).toEqual(new Set(["0100007F"]));
    for (const file of ["cmdline", "environ"])
      expect(readFileSync(`/proc/${pid}/${file}`, "utf8")).not.toContain("loopback-model-key");
    await abortOf(turn);
  });
}

/** The remote addresses of a process's open connections, as the kernel writes them. */
function connectionsOf(pid: number): string[] {
  const inodes = new Set(
    readdirSync(`/proc/${pid}/fd`).map(
      (fd) => /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1],
    ),
  );
  return ["tcp", "tcp6", "udp", "udp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .flatMap((line) => {
        const [, , remote = "", , , , , , , inode] = line.trim().split(/\s+/);
        return inodes.has(inode) && !/^0+:/.test(remote) ? [remote.split(":")[0] ?? ""] : [];
      }),
  );
}
