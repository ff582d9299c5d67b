import fc from "fast-check";
import { expect, test } from "vitest";
import { readLine } from "../../../../bridge/drivers/stdio/line-reading.ts";

const read = (line: string) => readLine(line, "type");
const SETTLED = { type: "agent_settled", aborted: false };
const settled = JSON.stringify(SETTLED);
const A = { type: "a", text: '{"}\\ "type": [' };
const a = JSON.stringify(A);

test("a message is a message, with blanks around it and its key anywhere", () => {
  for (const line of [a, `  ${a}\t`, `\ufeff${a}`, '{"x":{"y":[1,{}]},"type":"a"}']) {
    const { messages, isDamaged } = read(line);
    expect([line, messages, isDamaged]).toEqual([line, [JSON.parse(line.replace("\ufeff", ""))], false]);
  }
});

test("P28: noise before, between and behind messages is taken off them", () => {
  const table: Array<[line: string, messages: unknown[], noise: string]> = [
    ["npm warn deprecated x@1", [], "npm warn deprecated x@1"],
    [`banner v1${settled}`, [SETTLED], "banner v1"],
    [`${settled}done`, [SETTLED], "done"],
    [`a ${a} b ${settled} c`, [A, SETTLED], "a  b  c"],
    [`${a}${settled}`, [A, SETTLED], ""],
    [`\u001b[2K\u001b[1G${settled}`, [SETTLED], "\u001b[2K\u001b[1G"],
    [`[plugin] ${settled}`, [SETTLED], "[plugin]"],
    [`{ foo } ${settled}`, [SETTLED], "{ foo }"],
    [`if (x) { ${settled}`, [SETTLED], "if (x) {"],
    [`{"{${settled}`, [SETTLED], '{"{'],
    [`say "{" ${settled}`, [SETTLED], 'say "{"'],
    [`${"{".repeat(500)}${settled}`, [SETTLED], "{".repeat(500)],
  ];
  for (const [line, messages, noise] of table) {
    expect([line, read(line)]).toEqual([line, { messages, noise, isDamaged: false }]);
  }
});

test("P28: lists, numbers, texts and foreign objects are noise, also when a message's words are in them", () => {
  const lines = [
    "[]",
    ` [${settled}] `,
    "17",
    "null",
    '"text"',
    '"{}"',
    "{}",
    '{"level":"info"}',
    '{"level":"info","data":{"type":"x"}}',
    // Somebody prints an object of its own over many lines.
    "{",
    '  "name": "x",',
    '  "type": "module",',
    '  "exports": {',
    "  }",
    "}",
    "  ]",
  ];
  for (const line of lines)
    expect([line, read(line)]).toEqual([line, { messages: [], noise: line.trim(), isDamaged: false }]);
  expect(read(`{"level":"info"}${settled}`)).toEqual({
    messages: [SETTLED],
    noise: '{"level":"info"}',
    isDamaged: false,
  });
});

test("P28: a cut message is damage, and nothing that stands in it or behind it is taken for a message", () => {
  const nested = '{"type":"assistant","message":{"type":"result"},';
  const table: Array<[line: string, messages: unknown[]]> = [
    ['{"type":"resu', []],
    ['{"ty', []],
    ['{"', []],
    [`${nested}`, []],
    [`${nested}oops}`, []],
    ['{"usage":{"type":"result"},oops', []],
    [`${a}{"type":"resu`, [A]],
    [`{"type":"a","text":"hel${settled}`, []],
    [`{"type":"a",${settled}`, []],
    [`{"type":"a",}${settled}`, []],
    ['{"type":01}', []],
    ['{"type":"\u0001"}', []],
    ['lt","type":"result"}', []],
    [`type":1,"type":"result"}${settled}`, []],
  ];
  for (const [line, messages] of table) {
    expect([line, read(line)]).toEqual([line, expect.objectContaining({ messages, isDamaged: true })]);
  }
});

const noiseText = fc.string({ unit: fc.constantFrom("a", " ", "[", "}", ":", "é", "\u001b"), maxLength: 12 });
const message = fc.record({ subtype: fc.string(), usage: fc.dictionary(fc.string(), fc.jsonValue()) });

test("P28: any messages with any noise without braces or quotes around them are all recovered, in order", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(noiseText, message), { minLength: 1, maxLength: 4 }),
      noiseText,
      (parts, last) => {
        fc.pre(!parts.some(([noise]) => noise.trim().startsWith("[")));
        const own = parts.map(([, body]) => ({ ...body, type: "t" }));
        const line = parts.map(([noise], at) => noise + JSON.stringify(own[at])).join("") + last;
        expect(read(line)).toMatchObject({ messages: JSON.parse(JSON.stringify(own)), isDamaged: false });
      },
    ),
  );
});

test("P28: a message that another's line breaks in two at any place is recovered or damage, and never lost in silence", () => {
  // The key comes late, as Claude Code's `result` may have it: neither half has all of it.
  const late = JSON.stringify({
    subtype: "success",
    is_error: false,
    result: "long text",
    usage: { a: 1 },
    type: "result",
  });
  for (const whole of [late, settled]) {
    for (let at = 0; at <= whole.length; at += 1) {
      const lines = [`${whole.slice(0, at)}npm warn x`, whole.slice(at)];
      const readings = lines.filter((line) => line !== "").map(read);
      const isTold = readings.some(({ isDamaged, messages }) => isDamaged || messages.length > 0);
      expect([lines, isTold]).toEqual([lines, true]);
    }
  }
});

test("a protocol may have several keys of which each message carries one", () => {
  const keys = ["id", "method"];
  expect(readLine('{"id":1,"result":{}}', keys).messages).toHaveLength(1);
  expect(readLine('{"method":"x"}', keys).messages).toHaveLength(1);
  expect(readLine('{"result":{}}', keys)).toMatchObject({ messages: [], isDamaged: false });
  expect(readLine('{"method":"x', keys).isDamaged).toBe(true);
});

test("a key that an object only inherits is none of its own", () => {
  expect(readLine('{"__proto__":{"toString":1}}', "toString").messages).toEqual([]);
});

test("a line of brackets takes no memory to speak of: it is damage before it is parsed", () => {
  const most = 4_000_000;
  expect(read(`{"type":"x","a":${"[".repeat(most)}${"]".repeat(most)}}`)).toMatchObject({
    messages: [],
    isDamaged: true,
  });
  expect(read(`{"type":"x","a":[${"{},".repeat(1_000_000)}{}]}`)).toMatchObject({
    messages: [],
    isDamaged: true,
  });
  expect(read("{}".repeat(1_000_001))).toMatchObject({ messages: [], isDamaged: true });
  expect(read(`{"type":"x","a":[${"1,".repeat(1_000_000)}1]}`).messages).toHaveLength(1);
});

test("hostile lines: eight times as long is about eight times the work, not sixty-four", () => {
  const kinds: Record<string, string> = {
    braces: "{",
    "braces and quotes": '{"',
    "keys that go deeper": '{"a":',
    "broken objects": '{"a":1,x',
    "braces in a first key": '{"{{{{{{{{{{{{{{{{" ',
    "braces and blanks": "{        ",
    "escaped quotes": '{"\\"\\"',
    "cut objects in a list": '[{"a":',
    "objects that are no messages": "{}",
    backslashes: '{"a":"\\\\',
    "plain noise": "noise ",
    "noise with the key": '"type" ',
  };
  const least = (unit: string, chars: number) => {
    const line = `x ${unit.repeat(Math.ceil(chars / unit.length))}`;
    const times = Array.from({ length: 3 }, () => {
      const startMs = performance.now();
      read(line);
      return performance.now() - startMs;
    });
    return Math.max(0.2, Math.min(...times));
  };
  /** What else the machine does can only make it worse for a while: one fair measurement is enough. */
  const isLinear = (unit: string) =>
    [1, 2, 3, 4].some(() => least(unit, 1_000_000) / least(unit, 125_000) < 28);
  for (const [kind, unit] of Object.entries(kinds)) expect([kind, isLinear(unit)]).toEqual([kind, true]);
});
