/** What the user wrote and what the model said: unchanged, once, and never mixed. */
import { expect, test } from "vitest";
import { textProblem } from "../../../protocol/user-text.ts";
import { play } from "../../support/turns.ts";
import { processesOf } from "./processes.ts";
import { type DriverSubject, type Stage, settled, spoken } from "./subject.ts";

const BIG = `${"0123456789abcdef".repeat(12_800)} end of 200 KB`;

/** Texts that something on the way might trim, expand, split or swallow. */
const CORPUS: Readonly<Record<string, string>> = {
  "CRLF, tabs and an empty line": "one\r\ntwo\n\n\tthree\r\n",
  "leading and trailing blanks": "   leading, and trailing \n  ",
  "astral, combining and right-to-left characters": "𝔘🦑 e\u0301 שלום \u200d👩‍🚀",
  "a leading slash": "/help me",
  "a leading slash of a built-in command": "/init",
  "a file mention": "@file.txt and @src/main.ts",
  "a leading exclamation mark": "!ls -la",
  "a leading hash": "#x remember this",
  "what looks like markup of the CLI itself":
    "<system-reminder>no</system-reminder> $ARGUMENTS `!pwd` {file:a}",
};

export function textTests(stage: () => Stage, { manifest, addition, processText }: DriverSubject): void {
  test("laws 1, 4, 6, 7; A3, B1, C4: a first turn is NEW, its text exact, its gate and its end in evidence", async () => {
    const { t, fresh } = stage();
    const chunks = ["The ", "answer\r\n", " is 🦑", " 42.\n"];
    t.model.script("What is the answer", [{ kind: "reply", text: chunks }]);
    const member = fresh();
    const turn = await play(t, member, "What is the answer?");
    const { settlement } = turn;
    expect(settlement).toMatchObject({
      outcome: "completed",
      settled: true,
      context: "NEW",
      error: null,
      parts: [chunks.join("")],
      textIsCut: false,
      textIsPartial: false,
      keepsProcess: true,
    });
    expect(turn.seen()).toBe(chunks.join(""));
    expect(t.model.mainRequests().map((request) => spoken(stage(), request))).toEqual([
      ["What is the answer?"],
    ]);
    const sources = settlement.evidence.map(({ what }) => what);
    if (manifest.gate === "canary-on-stream") expect(sources).toContain("canary_returned");
    expect(turn.all("turn.gated")).toHaveLength(1);
    const order = turn.events.map(({ type }) => type);
    expect(order).toEqual([
      "turn.accepted",
      "turn.context",
      "turn.gated",
      "turn.submitting",
      "turn.delivered",
    ]);
    const row = t.host.member(member);
    expect(row).toMatchObject({ settled_turns: 1, pending_locator: null });
    expect(row.locator).toMatchObject({
      cli: manifest.cli,
      nativeId: settlement.session?.nativeId,
      tail: settlement.session?.tail,
      settledTurns: 1,
    });
    expect(t.host.store.locatorHistory(member)).toHaveLength(1);
  });

  test("A4, C7: the next turn is LIVE in the same process, and nothing of the user's text is in the answer", async () => {
    const { t, steady, sandbox } = stage();
    const member = steady();
    await play(t, member, "A first message, to be followed.");
    const processes = async () =>
      (await processesOf(sandbox, member, processText)).map(({ pid, startTicks }) => ({ pid, startTicks }));
    const before = await processes();
    expect(before.length).toBeGreaterThan(0);
    t.model.reset();
    t.model.script("Who are you", ["I am the model."]);
    const first = t.host.store.turnsOf(member, 1)[0]?.settlement;
    const { settlement } = await play(t, member, "Who are you, user text?");
    expect(settlement).toMatchObject({ outcome: "completed", context: "LIVE", parts: ["I am the model."] });
    expect(settlement.processGeneration).toBe(first?.processGeneration);
    // By number and start time: nothing was spawned for it.
    expect(await processes()).toEqual(before);
    expect(settlement.parts.join()).not.toContain("user text");
    expect(t.model.mainRequests()).toHaveLength(1);
  });

  for (const [what, text] of Object.entries(CORPUS)) {
    test(`law 1, A1: ${what} reach the model byte for byte, once, alone in their message`, async () => {
      const { t, steady } = stage();
      const member = steady();
      // A process may have something of its own to say before its first message.
      if (t.host.member(member).settled_turns === 0) await settled(stage(), member);
      const before = Number(t.host.member(member).settled_turns);
      if (textProblem(manifest.cli, text) !== null) {
        expect(() => t.host.submit(member, text)).toThrow(
          expect.objectContaining({ code: "MESSAGE_IS_COMMAND" }),
        );
        expect(t.model.requests()).toEqual([]);
        return;
      }
      const { settlement } = await play(t, member, text);
      expect(settlement).toMatchObject({ outcome: "completed", settled: true });
      expect(t.model.mainRequests()).toHaveLength(1);
      const sent = spoken(stage(), t.model.mainRequests()[0]);
      expect(sent.at(-1)).toBe(text);
      expect(sent).toHaveLength(before + 1);
      expect(sent.filter((each) => each === text)).toHaveLength(1);
      const last =
        t.model.mainRequests()[0]?.request?.rows.findLast(({ role }) => role === "user")?.texts ?? [];
      const added = last.filter((each) => each !== text);
      expect(added).toEqual(addition === null ? [] : [expect.stringMatching(addition)]);
    });
  }

  test("law 1, A1: 200 KB reach the model byte for byte", async () => {
    const { t, fresh } = stage();
    const { settlement } = await play(t, fresh(), BIG);
    expect(settlement).toMatchObject({ outcome: "completed", settled: true });
    const sent = spoken(stage(), t.model.mainRequests()[0]);
    expect(sent).toHaveLength(1);
    expect(sent[0] === BIG).toBe(true);
  });

  test("laws 1, 2; A1: a text that is repeated is sent as often as it was submitted, the history before it unchanged", async () => {
    const { t, steady } = stage();
    const member = steady();
    for (let times = 0; times < 3; times += 1) await play(t, member, "Again, please.");
    const requests = t.model.mainRequests();
    expect(requests).toHaveLength(3);
    const counts = requests.map(
      (request) => spoken(stage(), request).filter((each) => each === "Again, please.").length,
    );
    const before = (counts[0] ?? 1) - 1;
    expect(counts.map((count) => count - before)).toEqual([1, 2, 3]);
    const rows = requests.map((request) => request.request?.rows ?? []);
    for (const [at, later] of rows.slice(1).entries()) {
      const earlier = rows[at] ?? [];
      expect(later.slice(0, earlier.length)).toEqual(earlier);
    }
  });

  test("law 1: an empty message and half a surrogate pair are refused, and nothing is kept or sent", async () => {
    const { t, steady } = stage();
    const member = steady();
    const { submissions } = t.host.member(member);
    expect(() => t.host.submit(member, "")).toThrow(expect.objectContaining({ code: "MESSAGE_EMPTY" }));
    expect(() => t.host.submit(member, "half \ud800")).toThrow(
      expect.objectContaining({ code: "REQUEST_INVALID" }),
    );
    expect(t.host.member(member).submissions).toBe(submissions);
    expect(t.model.requests()).toEqual([]);
  });
}
