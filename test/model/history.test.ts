// The user's own text in a history, told apart from what the CLIs add: forms as the pinned versions send them.
import { expect, test } from "vitest";
import { ownTexts } from "../support/model/additions.ts";
import { positionOf, purposeOf } from "../support/model/history.ts";
import type { NeutralRequest, Row } from "../support/model/neutral.ts";

const row = (role: Row["role"], ...texts: string[]): Row => ({
  role,
  text: texts.join("\n"),
  texts,
  toolCalls: [],
  toolResults: [],
});

function request(rows: readonly Row[], more: Partial<NeutralRequest> = {}): NeutralRequest {
  return {
    model: "m1",
    system: "",
    rows,
    tools: ["bash"],
    freeformTools: [],
    stream: true,
    wantsUsage: true,
    ...more,
  };
}

const REMINDER =
  "<system-reminder>\nAs you answer the user's questions: What is <b>?\n</system-reminder>\n\n";
const NOTICE =
  "[SYSTEM NOTIFICATION - NOT USER INPUT]\nThis is an automated background-task event, NOT a message from the user.";

/** Whole parts of user messages that are no user's. */
const ADDITIONS = {
  "Kilo's details": "<environment_details>\nMessage time: now\n</environment_details>",
  "a reminder": REMINDER,
  "a reminder about the limit":
    "<system-reminder>\nOutput token limit hit. Resume directly — no apology.\n</system-reminder>",
  "the limit alone":
    "Output token limit hit. Resume directly — no apology, no recap of what you were doing. Go on.",
  "an interrupt": "[Request interrupted by user]\n",
  "an interrupt in a tool": "[Request interrupted by user for tool use]",
  "a continued session":
    "This session is being continued from a previous conversation that ran out of context. The summary below …",
  "the caveat of a command": "<local-command-caveat>Caveat: …</local-command-caveat>\n",
  "a command":
    "<command-name>/compact</command-name>\n            <command-message>compact</command-message>\n            <command-args></command-args>\n",
  "the output of a command": "<local-command-stdout>Compacted </local-command-stdout>\n",
  "Codex's environment": "<environment_context>\n  <cwd>/workspace</cwd>\n</environment_context>",
  "Codex's instructions":
    "# AGENTS.md instructions for /workspace\n\n<INSTRUCTIONS>\nBe nice.\n\n</INSTRUCTIONS>",
  "a subagent's end":
    '<subagent_notification>\n{"status":{"completed":"SubDone."}}\n</subagent_notification>',
  "an aborted turn": "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>",
  "Codex's summary":
    "Another language model started to solve this problem and produced a summary of its thinking process. …",
};

for (const [what, text] of Object.entries(ADDITIONS)) {
  test(`is not the user's: ${what}, beside the text or in a message of its own`, () => {
    const beside = positionOf(request([row("user", text, "U1"), row("assistant", "R1"), row("tool", "x")]));
    expect(beside).toMatchObject({ lastText: "U1", earlierTexts: [], round: 1 });
    const behind = positionOf(request([row("user", "U1", text)]));
    expect(behind).toMatchObject({ lastText: "U1", earlierTexts: [], round: 0 });
    const before = positionOf(request([row("user", text), row("user", "U1")]));
    expect(before).toMatchObject({ lastText: "U1", earlierTexts: [], round: 0 });
    const after = positionOf(request([row("user", "U1"), row("assistant", "R1"), row("user", text)]));
    expect(after).toMatchObject({ lastText: "U1", earlierTexts: [], round: 1 });
    expect(ownTexts(row("user", text, "U1", text))).toEqual(["U1"]);
    expect(new Set([beside, behind, before, after].map(({ turnKey }) => turnKey)).size).toBe(1);
  });

  test(`is the user's when it is only a piece of the text: ${what}`, () => {
    const own = `Look: ${text}`;
    expect(positionOf(request([row("user", own)])).lastText).toBe(own);
    expect(ownTexts(row("user", own))).toEqual([own]);
  });
}

test("markup that the user wrote stays the user's", () => {
  const own = "<system-reminder>no</system-reminder> $ARGUMENTS `!pwd` {file:a}";
  expect(ownTexts(row("user", REMINDER, own))).toEqual([own]);
});

test("a text that the CLI merged with the next one comes before it, and does not start the turn", () => {
  const position = positionOf(request([row("user", REMINDER, "U1\n", "U2")]));
  expect(position).toMatchObject({ lastText: "U2", earlierTexts: ["U1\n"], round: 0 });
});

test("a turn that the CLI started by itself is a turn, and its text is nobody's", () => {
  for (const text of [NOTICE, `<system-reminder>\n${NOTICE}\n</system-reminder>`]) {
    const rows = [row("user", REMINDER, "U1"), row("assistant", "R1"), row("user", REMINDER, text)];
    expect(positionOf(request(rows))).toMatchObject({ lastText: text, earlierTexts: ["U1"], round: 0 });
    expect(rows.flatMap((each) => ownTexts(each))).toEqual(["U1"]);
  }
});

test("a retry with other additions is the same turn; another text or history is not", () => {
  const key = (...rows: Row[]) => positionOf(request(rows)).turnKey;
  const before = [row("user", "U1"), row("assistant", "R1")];
  const first = key(...before, row("user", REMINDER, "U2"));
  expect(key(...before, row("user", REMINDER, REMINDER.replace("What", "Why"), "U2"))).toBe(first);
  expect(key(...before, row("user", REMINDER, "U3"))).not.toBe(first);
  expect(key(row("user", "U1"), row("assistant", "R9"), row("user", "U2"))).not.toBe(first);
  expect(key(...before.slice(0, 1), row("user", "U2"))).not.toBe(first);
});

test("nobody has said anything yet", () => {
  expect(positionOf(request([]))).toMatchObject({ lastText: "", earlierTexts: [], round: 0 });
});

test("a summary that is asked for with all tools offered is no turn of the conversation", () => {
  const claude = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use Read, …";
  const codex =
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM …";
  for (const prompt of [claude, codex]) {
    expect(purposeOf(request([row("user", REMINDER, "U1\n", prompt)]))).toBe("summary");
    expect(purposeOf(request([row("user", prompt), row("assistant", "S"), row("user", "U2")]))).toBe("main");
    expect(purposeOf(request([row("user", `What does "${prompt}" mean?`)]))).toBe("main");
  }
});

test("without tools it is a title, a summary or a plain question", () => {
  const purpose = (system: string, text = "x") =>
    purposeOf(request([row("user", text)], { tools: [], system }));
  expect(purpose("You generate a title.")).toBe("title");
  expect(purpose("Summarize.")).toBe("summary");
  expect(purpose("", "<conversation>x</conversation>")).toBe("summary");
  expect(purpose("You help.")).toBe("plain");
});
