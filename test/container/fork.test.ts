/**
 * Forks in a real container: parent and fork are slots of two Unix users, the bridge has no right over either's files, and
 * both work on in the one workspace: on each other's files, and with git in one repository.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { digestsOf } from "./engine.ts";

const SHELLS = [
  { cli: "opencode", tool: "bash", key: "command", state: "data/opencode" },
  { cli: "codex", tool: "exec_command", key: "cmd", state: "home/.codex/sessions" },
  { cli: "claude", tool: "Bash", key: "command", state: "home/.claude/projects" },
] as const satisfies ReadonlyArray<{ cli: CliName; [name: string]: string }>;
type Shell = (typeof SHELLS)[number];

let t: TestHost;
let sandbox: string;
let end: () => Promise<void> = async () => undefined;

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  sandbox = t.host.createSandbox({ kind: "docker" }).id;
}, 60_000);
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

/** Lets the member run a command by its CLI's own tool, and gives what the model was told that it printed. */
async function run({ tool, key }: Shell, member: string, text: string, command: string): Promise<string> {
  const call = { name: tool, arguments: { [key]: command, description: "a test's command" } };
  t.model.script(text, [{ kind: "reply" as const, toolCalls: [call] }, "Done."]);
  const { settlement } = await play(t, member, text);
  expect(settlement).toMatchObject({ outcome: "completed", parts: ["Done."] });
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  return rows.findLast(({ role }) => role === "tool")?.text ?? "";
}

/** The member's native state in the container; what only the running server needs is left out. */
async function stateOf({ state }: Shell, member: string): Promise<string[]> {
  const container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const digests = await digestsOf(container, `/home/slots/${member}/${state}`);
  return [...digests].filter(([name]) => !/-shm$|\/log\//.test(name)).map(([, digest]) => digest);
}

const GIT = "git -c user.name=n -c user.email=e@x";

test.for(SHELLS)(
  "$cli: parent and fork are two users, with one workspace and two histories",
  async (shell) => {
    const { cli } = shell;
    const model = { ...MEMBER.model, protocol: PROTOCOL_OF_CLI[cli] };
    const parent = t.host.createMember({ sandbox, cli, ...MEMBER, model }).id;
    await run(
      shell,
      parent,
      `The code word is limpet-${cli}.`,
      `mkdir r-${cli} && (cd r-${cli} && git init -q . && echo one > a && git add a && ${GIT} commit -qm one)`,
    );
    let before = await stateOf(shell, parent);
    // What the CLI writes behind its turn's end is its own.
    await until("native files that hold still", async () => {
      const earlier = before;
      await new Promise((resolve) => setTimeout(resolve, 500));
      before = await stateOf(shell, parent);
      return JSON.stringify(before) === JSON.stringify(earlier);
    });
    const locator = t.host.member(parent).locator;
    const requests = t.model.requests().length;
    const { member: fork } = await t.host.forkMember({ from: parent, key: `key-${cli}` });
    expect(t.model.requests()).toHaveLength(requests);
    expect(await stateOf(shell, parent)).toEqual(before);
    expect(before.length).toBeGreaterThan(0);

    const theirs = await run(
      shell,
      fork,
      "I am the fork.",
      `cd r-${cli} && echo two >> a && echo b > b && git add . && ${GIT} commit -qm two && git log --oneline | wc -l; ` +
        `stat -c %u a b; id -u; cat /home/slots/${parent}/${shell.state}/* 2>&1; ls /home/slots/${parent}`,
    );
    expect(userTexts(t.model.mainRequests().at(-1))).toEqual([
      `The code word is limpet-${cli}.`,
      "I am the fork.",
    ]);
    const [commits, ofParent, ofFork, self] = [...theirs.matchAll(/^\s*(\d+)\s*$/gm)].map(
      ([, number]) => number,
    );
    expect(commits).toBe("2");
    expect(ofFork).toBe(self);
    expect(ofParent).not.toBe(self);
    expect(theirs).toMatch(/Permission denied/);
    expect(await stateOf(shell, parent)).toEqual(before);
    expect(t.host.store.forkOf(fork)).toMatchObject({ state: "ready" });

    const mine = await run(
      shell,
      parent,
      "I am the parent.",
      `(cd r-${cli} && echo three >> a && echo more >> b && git add . && ${GIT} commit -qm three && git fsck --strict && git log --oneline | wc -l)`,
    );
    expect(mine).toMatch(/^\s*3\s*$/m);
    const texts = userTexts(t.model.mainRequests().at(-1));
    expect(texts).toEqual([`The code word is limpet-${cli}.`, "I am the parent."]);
    expect(t.host.member(parent).locator).toMatchObject({ nativeId: locator?.nativeId, settledTurns: 2 });
  },
);
