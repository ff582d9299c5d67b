/**
 * The CLIs on stdio in a real container without a network: each under a user of its own, with a permission that the user is
 * asked for, an abort that ends what a tool had started, and the whole history when the container was stopped and started.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { follow, play, tellOnFailure, userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { processesIn } from "./engine.ts";

const SHELLS = [
  { cli: "claude", tool: "Bash", key: "command" },
  { cli: "codex", tool: "exec_command", key: "cmd" },
  { cli: "pi", tool: "bash", key: "command" },
] as const;
type Shell = (typeof SHELLS)[number];

let t: TestHost;
let sandbox: string;
let end: () => Promise<void> = async () => undefined;
const members = new Map<string, string>();

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  sandbox = t.host.createSandbox({ kind: "docker" }).id;
  for (const { cli, tool } of SHELLS) {
    const model = { ...MEMBER.model, protocol: PROTOCOL_OF_CLI[cli] };
    const rules = [{ tool, pattern: "*", action: "ask" as const }];
    const made = t.host.createMember({ sandbox, cli, model, permissions: { ...ALLOW_ALL, rules } });
    members.set(cli, made.id);
  }
}, 60_000);
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

const memberOf = ({ cli }: Shell) => members.get(cli) ?? "";
const call = ({ tool, key }: Shell, command: string) => ({
  kind: "reply" as const,
  toolCalls: [{ name: tool, arguments: { [key]: command, description: "a test's command" } }],
});

/** Allows what the turn asks first. */
async function allow(member: string, turn: ReturnType<typeof follow>): Promise<void> {
  const { request } = await turn.heard("turn.permission_asked");
  const { session, request: id } = request;
  await t.host.answerPermission({ turn: turn.handle.id, session, request: id, reply: "once" });
  expect(t.host.member(member).id).toBe(member);
}

test.for(SHELLS)("laws 1, 9: $cli asks its user, and the tool runs as the slot's user", async (shell) => {
  const member = memberOf(shell);
  const first = await play(t, member, `The code word is limpet-${shell.cli}.`);
  expect(first.settlement).toMatchObject({ outcome: "completed", context: "NEW" });
  const command = `id -u > who-${shell.cli}.txt; chmod 0644 who-${shell.cli}.txt; cat who-${shell.cli}.txt`;
  t.model.script("Leave traces", [call(shell, command), "Left."]);
  const turn = follow(t.host.submit(member, "Leave traces."));
  await allow(member, turn);
  expect(await turn.end()).toMatchObject({ outcome: "completed", context: "LIVE", parts: ["Left."] });
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  expect(rows.findLast(({ role }) => role === "tool")?.text).toMatch(/\b2\d{4}\b/);
});

test.for(SHELLS)("an abort of $cli in a tool leaves none of its processes", async (shell) => {
  const member = memberOf(shell);
  t.model.script("Wait long", [call(shell, "sleep 4242"), "Never said."]);
  const turn = follow(t.host.submit(member, "Wait long."));
  await allow(member, turn);
  const container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const sleeps = async () =>
    (await processesIn(container)).filter(({ command }) => command.includes("sleep 4242"));
  await until("the tool", async () => (await sleeps()).length > 0);
  await turn.handle.abort();
  expect(await turn.end()).toMatchObject({ outcome: "aborted", settled: true });
  expect(await sleeps()).toEqual([]);
});

test("law 8, A7: the container was stopped and started: every history is whole", async () => {
  await t.host.stopSandbox(sandbox);
  for (const shell of SHELLS) {
    const { settlement } = await play(t, memberOf(shell), "What is the code word?");
    expect(settlement).toMatchObject({
      outcome: "completed",
      context: "RESTORED",
      parts: [`The code word is limpet-${shell.cli}.`],
    });
    const texts = userTexts(t.model.mainRequests().at(-1));
    expect(texts.filter((text) => text === `The code word is limpet-${shell.cli}.`)).toHaveLength(1);
    expect(texts.at(-1)).toBe("What is the code word?");
  }
});
