/**
 * Row F1 in a real container: the five CLIs side by side, without a network. The container was stopped and started, and every
 * history is whole: each text that was ever said, exact, in its place, as often as it was said.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { CODEX_SUBJECT } from "../conformance/suite/codex-subject.ts";
import { networkOf } from "../support/history/cage.ts";
import { HARD_TEXTS, REPEATED } from "../support/history/corpus.ts";
import {
  CLAUDE_HISTORIES,
  CODEX_HISTORY,
  KILO_HISTORY,
  type NativeHistory,
  OPENCODE_HISTORY,
  PI_HISTORY,
} from "../support/history/native.ts";
import { openTalk, type Talk } from "../support/history/talk.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { processesIn } from "./engine.ts";

const HISTORIES: ReadonlyArray<[CliName, NativeHistory]> = [
  ["opencode", OPENCODE_HISTORY],
  ["kilo", KILO_HISTORY],
  ["claude", CLAUDE_HISTORIES["2.1.332"]],
  ["codex", CODEX_HISTORY],
  ["pi", PI_HISTORY],
];

let t: TestHost;
let sandbox: string;
let end: () => Promise<void> = async () => undefined;
const talks = new Map<CliName, Talk>();

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  sandbox = t.host.createSandbox({ kind: "docker" }).id;
  for (const [cli, native] of HISTORIES) {
    const model = { ...MEMBER.model, contextTokens: 1_000_000, protocol: PROTOCOL_OF_CLI[cli] };
    const member = t.host.createMember({ sandbox, cli, ...MEMBER, model }).id;
    talks.set(cli, openTalk({ t, native, member }));
  }
}, 60_000);
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

function talkOf(cli: CliName): Talk {
  const talk = talks.get(cli);
  if (talk === undefined) throw new Error(`no talk with ${cli}`);
  return talk;
}

test.for(HISTORIES)("F1: %s is told all hard texts in one, and another one twice", async ([cli]) => {
  const { say } = talkOf(cli);
  for (const text of [Object.values(HARD_TEXTS).join("\r\n"), REPEATED, REPEATED]) await say(text);
});

test("the container has no network but its loopback, and nothing outside can be reached from a tool", async () => {
  const container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const processes = await processesIn(container);
  expect(processes.length).toBeGreaterThan(HISTORIES.length);
  for (const { pid } of processes) expect(networkOf(pid)).toEqual({ interfaces: ["lo"], routes: 0 });
  const call = CODEX_SUBJECT.tools.shell("(exec 3<>/dev/tcp/1.1.1.1/443 && echo OUTSIDE) 2>&1; true");
  t.model.script("Look outside", [{ kind: "reply", toolCalls: [call] }, "Seen."]);
  const member = t.host.createMember({ sandbox, cli: "codex", ...CODEX_SUBJECT.member }).id;
  expect((await play(t, member, "Look outside.")).settlement).toMatchObject({ outcome: "completed" });
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  expect(rows.findLast(({ role }) => role === "tool")?.text).toMatch(/Network is unreachable/);
});

test("F1, A7: the container was stopped and started, and every history is whole", async () => {
  await t.host.stopSandbox(sandbox);
  for (const [cli] of HISTORIES) {
    const { say } = talkOf(cli);
    expect(await say("Are you there again?"), cli).toBe("RESTORED");
    expect(await say(REPEATED), cli).toBe("LIVE");
  }
}, 180_000);
