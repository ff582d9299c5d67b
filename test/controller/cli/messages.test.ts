import { PassThrough, Readable } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Messages, pipedMessages, terminalMessages } from "../../../controller/cli/messages.ts";

async function all(messages: Messages): Promise<string[]> {
  const found: string[] = [];
  for await (const message of messages) found.push(message);
  return found;
}

function piped(...chunks: Array<string | Buffer>): Messages {
  return pipedMessages(
    Readable.from(
      chunks.map((chunk) => Buffer.from(chunk)),
      { objectMode: false },
    ),
  );
}

test("every line of a pipe is a message, the last one without an end too", async () => {
  expect(await all(piped("a\nb\r\n\nc"))).toEqual(["a", "b", "", "c"]);
  expect(await all(piped(""))).toEqual([]);
  expect(await all(piped("a\n"))).toEqual(["a"]);
});

test("lines are the same however the bytes are cut, and nothing but a line feed cuts them", async () => {
  const text = "e\u0301👩‍👧\u2028x\u2029y\u0085z\ufeff\rw\nnext\n";
  const bytes = Buffer.from(text);
  for (let at = 0; at <= bytes.length; at += 1) {
    expect(await all(piped(bytes.subarray(0, at), bytes.subarray(at)))).toEqual(text.split("\n").slice(0, 2));
  }
});

test("any text without a line feed arrives as it is", async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "grapheme" }), async (text) => {
      fc.pre(!/\n|\r$/.test(text) && text !== "");
      expect(await all(piped(`${text}\n`))).toEqual([text]);
    }),
    { numRuns: 50 },
  );
});

test("bytes that are no UTF-8 are refused, not replaced", async () => {
  await expect(all(piped(Buffer.from([0x61, 0xe9, 0x0a])))).rejects.toMatchObject({
    code: "REQUEST_INVALID",
  });
});

test("a line beyond the limit is refused before it is whole", async () => {
  const endless = async function* () {
    for (;;) yield Buffer.alloc(1024 * 1024, 97);
  };
  const messages = pipedMessages(Readable.from(endless(), { objectMode: false }));
  await expect(all(messages)).rejects.toMatchObject({ code: "MESSAGE_TOO_LARGE" });
});

test("a pipe that is closed under the reader is an end, not an error", async () => {
  const input = new PassThrough();
  const messages = pipedMessages(input);
  input.write("a\n");
  const found: string[] = [];
  for await (const message of messages) {
    found.push(message);
    setImmediate(() => messages.close());
  }
  expect(found).toEqual(["a"]);
});

function terminal() {
  const input = new PassThrough();
  const output = new PassThrough();
  output.resume();
  let shown = "";
  output.on("data", (chunk: Buffer) => {
    shown += chunk.toString("utf8");
  });
  let interrupts = 0;
  const messages = terminalMessages({
    input,
    output,
    onInterrupt: () => {
      interrupts += 1;
    },
  });
  return { input, messages, interrupts: () => interrupts, shown: () => shown };
}

const paste = (text: string) => `\u001b[200~${text}\u001b[201~`;

test("a typed line is a message; Ctrl-D at an empty one ends, and paste marks are switched off again", async () => {
  const { input, messages, shown } = terminal();
  messages.prompt();
  input.write("héllo 🦑 e\u0301\r");
  input.write("\u0004");
  expect(await all(messages)).toEqual(["héllo 🦑 e\u0301"]);
  expect(shown()).toContain("\u001b[?2004h");
  expect(shown()).toContain("> ");
  expect(shown().endsWith("\u001b[?2004l")).toBe(true);
  messages.prompt();
});

test("a paste of several lines is one message, with what was typed around it", async () => {
  const { input, messages } = terminal();
  input.write("look: ");
  input.write(paste("a\r\tb\r\nc\r"));
  input.write("that is all\r");
  input.write("next\r");
  input.write("\u0004");
  expect(await all(messages)).toEqual(["look: a\n\tb\nc\nthat is all", "next"]);
});

test("line separators are text, typed or pasted", async () => {
  const { input, messages } = terminal();
  input.write("a\u2028b\r");
  input.write(paste("c\u2029d"));
  input.write("\r\u0004");
  expect(await all(messages)).toEqual(["a\u2028b", "c\u2029d"]);
});

test("Ctrl-C is told, in a paste it is not a key", async () => {
  const { input, messages, interrupts } = terminal();
  input.write("\u0003");
  input.write(paste("a\u0003b"));
  input.write("\r\u0004");
  await all(messages);
  expect(interrupts()).toBe(1);
});

test("closing drops what was typed ahead", async () => {
  const { input, messages } = terminal();
  input.write("a\rb\r");
  const found: string[] = [];
  for await (const message of messages) {
    found.push(message);
    messages.close();
  }
  expect(found).toEqual(["a"]);
});
