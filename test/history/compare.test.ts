/**
 * That the checker of request histories can fail: one conversation in each wire protocol, read by the loopback model's own
 * reader, passes; with one thing changed it is told where and how.
 */
import { expect, test } from "vitest";
import { assistant, call, result, user } from "../model/client.ts";
import { CHAT, MESSAGES, type Message, RESPONSES, type Wire } from "../model/wires.ts";
import { firstDifference } from "../support/history/compare.ts";
import { HARD_TEXTS, REPEATED } from "../support/history/corpus.ts";
import { assistantRow, type ExpectedRow, userRow } from "../support/history/expected.ts";
import { anthropicMessages } from "../support/model/anthropic-messages.ts";
import { chatCompletions } from "../support/model/chat-completions.ts";
import type { Row, WireProtocol } from "../support/model/neutral.ts";
import { responses } from "../support/model/responses.ts";

const PROTOCOLS: ReadonlyArray<[WireProtocol, Wire]> = [
  [chatCompletions, CHAT],
  [responses, RESPONSES],
  [anthropicMessages, MESSAGES],
];

const HARD = Object.values(HARD_TEXTS).join("\r\n");
const LINES = "  first\r\nsecond e\u0301 \r\n";
const REPLY = "Reply\r\nof two lines. ";
const NOTE = { native: "details", form: /^<details>.*<\/details>$/s };

const CONVERSATION: readonly Message[] = [
  user(HARD),
  assistant("One."),
  user([
    { type: "text", text: LINES },
    { type: "text", text: "<details>\nnow\n</details>" },
  ]),
  assistant(REPLY, [call("c1")]),
  result("c1", "done"),
  assistant("Two."),
  user(REPEATED),
  assistant("Three."),
  user(REPEATED),
];

const EXPECTED: readonly ExpectedRow[] = [
  userRow(HARD),
  assistantRow("One."),
  userRow(LINES, NOTE),
  { role: "assistant", parts: [REPLY], calls: [{ name: "bash", arguments: {} }] },
  { role: "tool", parts: ["done"], answers: [0] },
  assistantRow("Two."),
  userRow(REPEATED),
  assistantRow("Three."),
  userRow(REPEATED),
];

function rowsIn([protocol, wire]: [WireProtocol, Wire], messages: readonly Message[]): readonly Row[] {
  const body: unknown = wire.body({ system: "You help.", messages, tools: true, stream: true });
  return protocol.parse(JSON.parse(JSON.stringify(body))).rows;
}

/** One thing changed in what the model receives, and the words by which it is told. */
const CHANGES: Readonly<Record<string, [(messages: Message[]) => Message[], RegExp]>> = {
  "the first text missing": [(all) => all.toSpliced(0, 1), /^row 0 .*missing: user "/],
  "a reply missing": [(all) => all.toSpliced(5, 1), /^row 5 .*missing: assistant "Two\."/],
  "the last text missing": [(all) => all.slice(0, -1), /^row 8 .*missing: user "Again, please\.\\r\\n"/],
  "one of two repeats missing, with its reply": [
    (all) => all.toSpliced(6, 2),
    /^row 7 .*missing: assistant "Three\."/,
  ],
  "a text doubled": [(all) => all.toSpliced(2, 0, ...all.slice(2, 3)), /^row 3 .*doubled: user " {2}first/],
  "a reply doubled": [
    (all) => all.toSpliced(2, 0, ...all.slice(1, 2)),
    /^row 2 .*doubled: assistant "One|^row 1 .*part 1 of 2: one more than expected: "One/,
  ],
  "the last text doubled": [
    (all) => [...all, ...all.slice(-1)],
    /^row 9 .*one more than expected, like row 6/,
  ],
  "two turns in another order": [
    (all) => [...all.slice(2, 6), ...all.slice(0, 2), ...all.slice(6)],
    /^row 0 .*out of order: user " {2}first[\s\S]*instead of user "/,
  ],
  "a code point changed": [
    replaced(2, (text) => text.replace("second", "secoñd")),
    /U\+00F1 and not U\+006E/,
  ],
  "a code point of a high plane changed": [
    replaced(0, (text) => text.replace("\u{100a1}", "\u{100a2}")),
    /^row 0 .*U\+100A2 and not U\+100A1/,
  ],
  "another Unicode form": [replaced(2, (text) => text.normalize("NFC")), /\(another Unicode form\)/],
  "CRLF made LF": [replaced(2, (text) => text.replaceAll("\r\n", "\n")), /\(CRLF became LF\)/],
  "CRLF made LF in a reply": [
    replaced(3, (text) => text.replaceAll("\r\n", "\n")),
    /^row 3 .*CRLF became LF/,
  ],
  trimmed: [replaced(2, (text) => text.trim()), /\(trimmed\)/],
  "trimmed at its end": [replaced(6, (text) => text.trimEnd()), /^row 6 .*\(trimmed at its end\)/],
  "a reply trimmed at its end": [replaced(3, (text) => text.trimEnd()), /\(trimmed at its end\)/],
  cut: [replaced(0, (text) => text.slice(0, 99)), /\(cut\).*its end and not/],
  "something behind it": [replaced(6, (text) => `${text}<note/>`), /\(with something behind it\)/],
  "another role": [(all) => all.with(1, user("One.")), /the role is user and not assistant/],
  "a part more in a message": [
    (all) => all.with(8, user([part(REPEATED), part("<details>now</details>")])),
    /^row 8 .*part 1 of 2: one more than expected/,
  ],
  "a part of the CLI's own missing": [(all) => all.with(2, user(LINES)), /part 1 of 1: missing: details/],
  "a part of the CLI's own of another form": [
    (all) => all.with(2, user([part(LINES), part("<other>now</other>")])),
    /no details: "<other>/,
  ],
  "the user's text where the CLI's own part is due": [
    (all) => all.with(2, user([part(LINES), part(LINES)])),
    /no details: " {2}first/,
  ],
  "another call": [
    (all) =>
      all.with(3, assistant(REPLY, [{ ...call("c1"), function: { name: "bash", arguments: '{"a":1}' } }])),
    /the calls are .*"a":1/,
  ],
  "no result's text": [replaced(4, () => "aborted"), /^row 4 .*tool, part 0 of 1/],
};

const part = (text: string) => ({ type: "text", text });

function replaced(at: number, change: (text: string) => string): (messages: Message[]) => Message[] {
  return (all) => {
    const { content, ...rest } = all[at] as Message;
    const [first, ...more] =
      typeof content === "string" ? [part(content)] : (content as Array<{ text: string }>);
    const text = change(first?.text ?? "");
    if (text === first?.text) throw new Error("nothing was changed");
    return all.with(at, { ...rest, content: more.length === 0 ? text : [part(text), ...more] });
  };
}

for (const wire of PROTOCOLS) {
  const [{ name }] = wire;

  test(`${name}: a history that is what it must be has no difference`, () => {
    expect(firstDifference(EXPECTED, rowsIn(wire, CONVERSATION))).toBeNull();
  });

  for (const [what, [change, told]] of Object.entries(CHANGES)) {
    test(`${name}: told as a difference: ${what}`, () => {
      expect(firstDifference(EXPECTED, rowsIn(wire, change([...CONVERSATION])))).toMatch(told);
    });
  }
}

test("a result that answers another call is told", () => {
  const twice = [user("x"), assistant(null, [call("c1"), call("c2")]), result("c2", "a"), result("c1", "b")];
  const calls = [
    { name: "bash", arguments: {} },
    { name: "bash", arguments: {} },
  ];
  const expected = (first: number, second: number): ExpectedRow[] => [
    userRow("x"),
    { role: "assistant", parts: [], calls },
    { role: "tool", parts: ["a"], answers: [first] },
    { role: "tool", parts: ["b"], answers: [second] },
  ];
  for (const wire of PROTOCOLS) {
    expect(firstDifference(expected(1, 0), rowsIn(wire, twice))).toBeNull();
    expect(firstDifference(expected(0, 1), rowsIn(wire, twice))).toMatch(
      /^row 2 .*answer the calls \[1\] and not \[0\]/,
    );
  }
});

test("keys of a call in another order are no difference, and a freeform tool's text is compared as it is", () => {
  const row = (args: string): Row[] => [
    {
      role: "assistant",
      text: "",
      texts: [],
      toolCalls: [{ id: "c", name: "t", arguments: args }],
      toolResults: [],
    },
  ];
  const wanted = (args: unknown): ExpectedRow[] => [
    { role: "assistant", parts: [], calls: [{ name: "t", arguments: args }] },
  ];
  expect(firstDifference(wanted({ a: 1, b: [2] }), row('{"b":[2],"a":1}'))).toBeNull();
  expect(firstDifference(wanted("*** Begin"), row("*** Begin"))).toBeNull();
  expect(firstDifference(wanted("*** Begin"), row("*** Begin "))).toMatch(/the calls are/);
});

test("the corpus holds what it says: every plane, all line ends, blanks, look-alikes, 200 KB, and no text twice", () => {
  const texts = Object.values(HARD_TEXTS);
  expect(new Set(texts).size).toBe(texts.length);
  const points = [...texts.join("")].map((each) => each.codePointAt(0) ?? 0);
  expect(new Set(points.map((point) => point >> 16)).size).toBe(17);
  for (let control = 1; control < 32; control++) expect(points).toContain(control);
  expect(texts.some((text) => text.trimStart() !== text && text.trimEnd() !== text)).toBe(true);
  expect(texts.map((text) => text[0])).toEqual(expect.arrayContaining(["!", "#", "@", "/"]));
  expect(Math.max(...texts.map((text) => Buffer.byteLength(text)))).toBeGreaterThan(200 * 1024);
  for (const text of texts) expect(text.isWellFormed()).toBe(true);
});
