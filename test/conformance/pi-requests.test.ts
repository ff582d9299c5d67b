/** What Pi 1.6.0 asks its user: permissions by our extension, questions of the model and of anybody's extension. */
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { ALLOW_ALL, type MemberPolicy } from "../../protocol/permission-policy.ts";
import { type Followed, follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { PI_COMMAND, PI_SUBJECT } from "./suite/pi-subject.ts";
import { processesOf } from "./suite/processes.ts";
import { abortOf, fileIn, openStage, type Stage, settled } from "./suite/subject.ts";

const { shell } = PI_SUBJECT.tools;
const call = (name: string, args: Record<string, unknown> = {}) => ({ name, arguments: args });
const strange = fileURLToPath(new URL("../stand-ins/pi/strange-extension.ts", import.meta.url));

/** What the model read of this turn's tool calls. */
function results({ t }: Stage): string[] {
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  const own = rows.slice(rows.findLastIndex(({ role }) => role === "user"));
  return own.filter(({ role }) => role === "tool").map(({ text }) => text);
}

async function answer(stage: Stage, turn: Followed, at: number, answers: string[][] | null): Promise<void> {
  const { question } = await turn.heard(
    "turn.question_asked",
    (event) => event === turn.all("turn.question_asked")[at],
  );
  const { session, request } = question;
  await stage.t.host.answerQuestion({ turn: turn.handle.id, session, request, answers });
}

describe("our own extension", () => {
  const stage = openStage(PI_SUBJECT);
  const policy = (changes: Partial<MemberPolicy>) =>
    stage().fresh({ permissions: { ...ALLOW_ALL, ...changes } });

  test("law 9: calls of one answer ask one after the other, each gets its own reply, and none runs before all have theirs", async () => {
    const { t, asked } = stage();
    t.model.script("Do two", [
      { kind: "reply", toolCalls: [shell("printf 1 > row-1.txt"), shell("printf 2 > row-2.txt")] },
      "Done.",
    ]);
    const turn = follow(t.host.submit(asked("ask"), "Do two things."));
    const reply = async (at: number, word: "once" | "reject") => {
      const { request } = await turn.heard(
        "turn.permission_asked",
        (event) => event === turn.all("turn.permission_asked")[at],
      );
      await t.host.answerPermission({ turn: turn.handle.id, ...request, reply: word });
      return request;
    };
    const first = await reply(0, "reject");
    await turn.heard("turn.permission_asked", ({ request }) => request.request !== first.request);
    expect([fileIn(stage(), "row-1.txt"), fileIn(stage(), "row-2.txt")]).toEqual([null, null]);
    const second = await reply(1, "once");
    expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Done."] });
    expect([first.patterns, second.patterns]).toEqual([["printf 1 > row-1.txt"], ["printf 2 > row-2.txt"]]);
    expect(turn.all("turn.permission_closed")).toEqual([
      expect.objectContaining({ request: first.request, reply: "reject", by: "user", result: "confirmed" }),
      expect.objectContaining({ request: second.request, reply: "once", by: "user", result: "confirmed" }),
    ]);
    expect([fileIn(stage(), "row-1.txt"), fileIn(stage(), "row-2.txt")]).toEqual([null, "2"]);
    expect(results(stage())[0]).toContain("do not allow");
  });

  test("law 9: a path is judged as the tool will read it, whatever way it is written", async () => {
    const { t, workspace } = stage();
    const rules = [{ tool: "write", pattern: `${workspace}/secret/*`, action: "deny" as const }];
    const write = (path: string) => call("write", { path, content: "x" });
    t.model.script("Write them", [
      {
        kind: "reply",
        toolCalls: [write("sub/../secret/a.txt"), write(`${workspace}/secret/b.txt`), write("open/c.txt")],
      },
      "Written.",
    ]);
    const turn = await play(t, policy({ rules }), "Write them all.");
    expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Written."] });
    expect(turn.all("turn.permission_closed").map(({ reply, by }) => `${reply} ${by}`)).toEqual([
      "reject policy",
      "reject policy",
      "once policy",
    ]);
    const files = ["secret/a.txt", "secret/b.txt", "open/c.txt"].map((name) => fileIn(stage(), name));
    expect(files).toEqual([null, null, "x"]);
  });

  test("laws 9, 15: a policy that denies is heard for every tool that pi would run unasked, and offers no question", async () => {
    const { t } = stage();
    t.model.script("Try all", [
      {
        kind: "reply",
        toolCalls: [
          shell("printf x > denied-1.txt"),
          call("write", { path: "denied-2.txt", content: "x" }),
          call("read", { path: "/etc/hostname" }),
          call("question", { questions: [{ question: "May I?", options: [] }] }),
        ],
      },
      "Nothing went.",
    ]);
    const turn = await play(t, policy({ default: "deny" }), "Try all of them.");
    expect(turn.settlement).toMatchObject({ outcome: "completed", parts: ["Nothing went."] });
    expect(turn.all("turn.permission_closed").map(({ reply }) => reply)).toEqual([
      "reject",
      "reject",
      "reject",
    ]);
    expect(turn.all("turn.question_asked")).toEqual([]);
    expect([fileIn(stage(), "denied-1.txt"), fileIn(stage(), "denied-2.txt")]).toEqual([null, null]);
    expect(t.model.mainRequests()[0]?.request?.tools ?? []).not.toContain("question");
    expect(results(stage())).toHaveLength(4);
  });

  test("E2: several items in one question, one with several answers and one with the user's own words", async () => {
    const { t, steady } = stage();
    const questions = [
      {
        question: "Which colours?",
        header: "Colours",
        options: [{ label: "blue" }, { label: "green" }, { label: "red" }],
        multiple: true,
        custom: false,
      },
      { question: "Your name?", options: [] },
    ];
    t.model.script("Ask both", [
      { kind: "reply", toolCalls: [call("question", { questions })] },
      "Thank you.",
    ]);
    const turn = follow(t.host.submit(steady(), "Ask both."));
    const { question } = await turn.heard("turn.question_asked");
    expect(question.items).toMatchObject([
      { header: "Colours", isMultiple: true, isOpen: false },
      { question: "Your name?", options: [], isOpen: true },
    ]);
    await answer(stage(), turn, 0, [["blue", "red"], ["Ann “A.” O'Hara 🦑"]]);
    expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["Thank you."] });
    expect(results(stage())).toEqual([
      "The user answered:\n\nWhich colours?\n→ blue, red\n\nYour name?\n→ Ann “A.” O'Hara 🦑",
    ]);
  });

  test("E2: two questions of one answer are open at once, and each gets its own answer", async () => {
    const { t, steady } = stage();
    const one = (text: string) => call("question", { questions: [{ question: text, options: [] }] });
    t.model.script("Ask two", [{ kind: "reply", toolCalls: [one("First?"), one("Second?")] }, "Both."]);
    const member = steady();
    const turn = follow(t.host.submit(member, "Ask two."));
    await until("both", () => turn.all("turn.question_asked").length === 2, 30_000);
    expect(t.host.openRequests(member)).toHaveLength(2);
    await answer(stage(), turn, 1, [["to the second"]]);
    await answer(stage(), turn, 0, [["to the first"]]);
    expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["Both."] });
    expect(results(stage())[0]).toContain("First?\n→ to the first");
    expect(results(stage())[1]).toContain("Second?\n→ to the second");
  });

  test.each([
    ["a permission", () => stage().asked("ask"), shell("printf x > aborted.txt")],
    [
      "a question",
      () => stage().steady(),
      call("question", { questions: [{ question: "Well?", options: [] }] }),
    ],
  ] as const)(
    "law 6: an abort in %s cancels it first; the turn settles, and the process stays",
    async (_what, who, toolCall) => {
      const { t } = stage();
      const member = await settled(stage(), who());
      t.model.script("Ask and be", [{ kind: "reply", toolCalls: [toolCall] }, "Never."]);
      const turn = follow(t.host.submit(member, "Ask and be aborted."));
      await until("the request", () => t.host.openRequests(member).length === 1, 30_000);
      expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
      const closed = [...turn.all("turn.permission_closed"), ...turn.all("turn.question_closed")];
      expect(closed).toEqual([expect.objectContaining({ by: null, result: "confirmed" })]);
      expect(t.host.openRequests(member)).toEqual([]);
      expect(fileIn(stage(), "aborted.txt")).toBeNull();
      t.model.reset();
      const next = await play(t, member, "And now?");
      expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    },
  );

  test("law 6: what a tool has let go of in a session of its own is ended with the aborted turn; what was there before stays", async () => {
    const { t, steady, sandbox } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Leave one", [
      { kind: "reply", toolCalls: [shell("setsid sleep 341 >/dev/null 2>&1 &")] },
      "Left.",
    ]);
    expect((await play(t, member, "Leave one behind.")).settlement.outcome).toBe("completed");
    t.model.script("Leave more", [
      { kind: "reply", toolCalls: [shell("setsid sleep 342 >/dev/null 2>&1 & sleep 343")] },
      "Never.",
    ]);
    const turn = follow(t.host.submit(member, "Leave more behind."));
    const sleeping = async (text: string) => (await processesOf(sandbox, member, text)).length;
    // The shell that runs them has them in its own command line.
    await until(
      "both",
      async () => (await sleeping("sleep 342")) > 1 && (await sleeping("sleep 343")) > 1,
      30_000,
    );
    expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
    expect([await sleeping("sleep 342"), await sleeping("sleep 343")]).toEqual([0, 0]);
    expect(await sleeping("sleep 341")).toBe(1);
    t.model.reset();
    expect((await play(t, member, "Go on.")).settlement).toMatchObject({
      context: "LIVE",
      outcome: "completed",
    });
  });
});

describe("another extension", () => {
  const stage = openStage(PI_SUBJECT, {
    limits: { questionMs: 1500 },
    commands: { pi: [...PI_COMMAND, "-e", strange] },
  });

  test.each([
    [
      "ask_select",
      [["blue"]],
      'answer="blue"',
      { options: [{ label: "red" }, { label: "blue" }], isOpen: false },
    ],
    ["ask_confirm", [["Yes"]], "answer=true", { header: "Sure?", question: "All of it." }],
    ["ask_input", [["Ann"]], 'answer="Ann"', { question: "Your name?", isOpen: true }],
    ["ask_editor", [["line 2"]], 'answer="line 2"', { header: "Edit it", question: "line 1", isOpen: true }],
    ["ask_like_us", [["no"]], 'answer="no"', { options: [{ label: "yes" }, { label: "no" }] }],
  ] as const)(
    "E2: %s is a question to the user, never a permission, and its answer reaches the extension",
    async (name, answers, told, item) => {
      const { t, steady } = stage();
      t.model.script("Use it", [{ kind: "reply", toolCalls: [call(name)] }, "Used."]);
      const turn = follow(t.host.submit(steady(), "Use it."));
      const { question } = await turn.heard("turn.question_asked");
      expect(question.items).toMatchObject([item]);
      await answer(
        stage(),
        turn,
        0,
        answers.map((each) => [...each]),
      );
      expect(await turn.end()).toMatchObject({ outcome: "completed", settled: true, parts: ["Used."] });
      expect(turn.all("turn.permission_asked")).toEqual([]);
      expect(turn.all("turn.question_closed")).toEqual([
        expect.objectContaining({ reply: "answered", by: "user", result: "confirmed" }),
      ]);
      expect(results(stage())).toEqual([told]);
    },
  );

  test("law 9: one that the user rejects, and one that nobody answers, are cancelled: the extension goes on", async () => {
    const { t, steady } = stage();
    t.model.script("Use both", [
      { kind: "reply", toolCalls: [call("ask_confirm")] },
      { kind: "reply", toolCalls: [call("ask_input")] },
      "Used.",
    ]);
    const turn = follow(t.host.submit(steady(), "Use both."));
    await answer(stage(), turn, 0, null);
    expect(await turn.end()).toMatchObject({
      settled: true,
      parts: ["Used."],
      error: { code: "QUESTION_UNANSWERED" },
    });
    expect(turn.all("turn.question_closed").map(({ reply, by }) => `${reply} ${by}`)).toEqual([
      "rejected user",
      "rejected deadline",
    ]);
    // What pi gives for a cancelled one: false, and nothing.
    expect(results(stage())).toEqual(["answer=false", "answer=undefined"]);
  });
});
