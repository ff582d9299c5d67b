/**
 * Rows A1 and F1: that a CLI's history is whole. One conversation of one member goes through every way in which a
 * conversation may go on; after each step the request that the model received is compared with all that was ever said, row by
 * row. What the CLI changes by itself is in native.ts. The sandbox has no network.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, expect, test } from "vitest";
import { textProblem } from "../../../protocol/user-text.ts";
import { canCage, makeCage, networkOf } from "../../support/history/cage.ts";
import type { Reply } from "../../support/history/conversation.ts";
import {
  DISGUISED_TEXTS,
  HARD_TEXTS,
  MENTIONED,
  REPEATED,
  SLASH_TEXTS,
} from "../../support/history/corpus.ts";
import type { NativeHistory } from "../../support/history/native.ts";
import { reportOn } from "../../support/history/prefix.ts";
import { openTalk, type Talk } from "../../support/history/talk.ts";
import type { TestHostOptions } from "../../support/host.ts";
import { until } from "../../support/until.ts";
import { bridgeOf, exitsOf, killCli, oneMoreExit, processesOf } from "./processes.ts";
import { type DriverSubject, openStage, type Stage } from "./subject.ts";

export function recallSuite(
  subject: DriverSubject,
  native: NativeHistory,
  options: TestHostOptions = {},
): void {
  const { cli } = subject.manifest;
  const cage = canCage ? makeCage() : null;
  afterAll(() => cage?.remove());
  const stage = openStage(subject, {
    ...options,
    ...(cage === null ? {} : { distDirectory: cage.distDirectory }),
  });
  const shell: Pick<Reply, "call" | "result"> = {
    call: subject.tools.shell("printf done"),
    result: { native: "a shell's output", form: /(?:^|\n)done\n?$/ },
  };

  const begun = today();
  let shared: Talk | null = null;
  afterEach(({ task }) => {
    // What failed may have left something behind: the cells after it begin anew.
    if (task.result?.state === "fail") shared = null;
  });
  /** The conversation that the cells share; begun when it must be. */
  async function talk(): Promise<Talk> {
    if (shared !== null) return shared;
    const { model } = subject.member;
    const member = stage().fresh({ model: { ...model, contextTokens: 1_000_000 } });
    shared = openTalk({ t: stage().t, native, member });
    expect(await shared.say("Good morning.")).toBe("NEW");
    writeFileSync(`${stage().workspace}/${MENTIONED.name}`, MENTIONED.content);
    return shared;
  }

  test("A1, F1: followed up LIVE, every text is there, exact, in its place, as often as it was said; or the message is refused", async () => {
    const { member, say, entries } = await talk();
    for (const [what, text] of [
      ...Object.entries(HARD_TEXTS),
      ...SLASH_TEXTS.map((each) => [each, each] as const),
    ]) {
      if (textProblem(cli, text) === null) {
        expect(await say(text, [{ text: `Reply to ${what}.` }]), what).toBe("LIVE");
        continue;
      }
      const { host, model } = stage().t;
      const before = model.requests().length;
      expect(() => host.submit(member, text), what).toThrow(
        expect.objectContaining({ code: "MESSAGE_IS_COMMAND" }),
      );
      expect(model.requests()).toHaveLength(before);
    }
    for (const text of DISGUISED_TEXTS) await say(text, [{ text: "Done." }]);
    for (let times = 0; times < 3; times += 1) await say(REPEATED, [{ text: "The same reply." }]);
    expect(entries.filter((entry) => "text" in entry && entry.text === REPEATED)).toHaveLength(3);
    await say("Use the tool.", [{ text: "Before the tool.", ...shell }, { text: "Behind the tool." }]);
    await say("And what follows?", [{ text: HARD_REPLY }]);
    expect(await say("Go on.")).toBe("LIVE");
  });

  test("F1: behind a failed call, the failed text is there once, and every other one", async () => {
    const { fail, say } = await talk();
    await fail("This will fail.");
    expect(await say("Behind the failure.")).toBe("LIVE");
    await fail("This will fail too.\r\n");
  });

  test("F1: closed at once behind a turn and restored, the history is whole", async () => {
    const { say } = await talk();
    await say("The last before the end.", [{ text: "Good night." }]);
    await stage().t.host.stopSandbox(stage().sandbox);
    expect(await say("Awake again?")).toBe("RESTORED");
  });

  test("F1, D4, D5: behind a call that the CLI has tried again by itself, the reply is there once, LIVE and restored", async () => {
    const { say } = await talk();
    const failFirst = { times: 1, status: 500 };
    const context = subject.retiresAfterRetry ? "RESTORED" : "LIVE";
    await say("Try it twice.", [{ text: "The second try." }], [failFirst]);
    expect(await say("Behind the tries.")).toBe(context);
    await say(
      "Use the tool, and try twice.",
      [{ text: "Before it.", ...shell }, { text: "Behind it." }],
      [undefined, failFirst],
    );
    expect(await say("Behind the tool's tries.")).toBe(context);
    await stage().t.host.stopSandbox(stage().sandbox);
    expect(await say("Restored behind the tries.")).toBe("RESTORED");
  });

  test("F1: behind an aborted turn, LIVE and restored, every text is there", async () => {
    const { abort, say } = await talk();
    await abort("Stop in the middle.", "Half an answer, ");
    expect(await say("Behind the abort.")).toBe("LIVE");
    await abort("Stop once more.", "Another half, ");
    await stage().t.host.stopSandbox(stage().sandbox);
    expect(await say("Restored behind the abort.")).toBe("RESTORED");
  });

  test("F1, D6: killed hard behind a settlement and restored, the history is whole, and nothing was called that nobody asked for", async () => {
    const { member, say } = await talk();
    const { t, sandbox, directory } = stage();
    await say("The last before the kill.", [{ text: "Still here." }]);
    await stored(subject, stage(), member);
    const before = { exits: exitsOf(directory, member), requests: t.model.requests().length };
    await killCli(sandbox, member, subject.processText);
    await oneMoreExit(directory, member, before.exits);
    expect(await say("Alive?")).toBe("RESTORED");
    expect(t.model.requests()).toHaveLength(before.requests + 1);
  });

  test("F1: forked, the fork has the whole history, and each goes on with its own", async () => {
    const parent = await talk();
    await parent.say("The last before the fork.");
    const child = await parent.fork("recall");
    expect(await child.say("I am the fork.")).toBe("RESTORED");
    expect(await parent.say("I am the parent.")).toMatch(/^(?:LIVE|RESTORED)$/);
    expect(await child.say("Still the fork.")).toBe("LIVE");
    expect(reportOn(child.requests)).toMatchObject({ pairs: [{ verdict: "equal" }] });
  });

  test("S26: over live turns and restarts, whatever a request held stands unchanged at the beginning of the next", async () => {
    const { requests } = await talk();
    const { pairs, breaks, simulatedHitShare } = reportOn(requests);
    const share = `${(100 * simulatedHitShare).toFixed(1)} % of the input repeated (simulated prefix cache)`;
    process.stdout.write(
      `${cli} ${native.version}: ${pairs.length} pairs, ${breaks.length} breaks, ${share}\n`,
    );
    // At midnight the date in a system text is another one: that is native.
    const counted = today() === begun ? breaks : breaks.filter(({ changed }) => changed !== "system");
    expect(counted.map(({ changed, text }) => ({ changed, text }))).toEqual(native.breaks);
    expect(pairs.length).toBeGreaterThanOrEqual(18);
    expect(simulatedHitShare).toBeGreaterThan(0.8);
  });

  test.skipIf(cage === null)("the sandbox has no network but its loopback", async () => {
    const { member } = await talk();
    const { directory } = stage();
    for (const pid of [bridgeOf(directory), ...(await pidsOf(subject, stage(), member))])
      expect(networkOf(pid)).toEqual({ interfaces: ["lo"], routes: 0 });
  });
}

/** As a model may answer: with blanks around it, and line ends of every kind. */
const HARD_REPLY = "Reply\r\nof two lines,\n\n\twith e\u0301, \u{1f991} and \u2028 in it";

async function pidsOf({ processText }: DriverSubject, { sandbox }: Stage, member: string): Promise<number[]> {
  const found = await processesOf(sandbox, member, processText);
  expect(found).not.toEqual([]);
  return found.map(({ pid }) => pid);
}

const today = () => new Date().toDateString();

/** Some CLIs write a turn a while behind its end. */
async function stored({ lateStore }: DriverSubject, { t, directory }: Stage, member: string): Promise<void> {
  const { locator } = t.host.member(member);
  if (lateStore === null || locator === null) return;
  const path = lateStore(`${directory}/slots/${member}/home`, locator);
  const isStored = () => existsSync(path) && readFileSync(path, "utf8").includes(locator.tail?.id ?? "");
  await until("the turn in the CLI's store", isStored);
}
