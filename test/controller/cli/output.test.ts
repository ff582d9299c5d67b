import fc from "fast-check";
import { expect, test } from "vitest";
import {
  createOutput,
  jsonLine,
  oneLine,
  printable,
  seconds,
  table,
} from "../../../controller/cli/output.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { keptOutput } from "../../support/cli.ts";

const HOSTILE = "\u001b]0;title\u0007\u001b[2J\u001b[1;1Hforged\r\u009b31mred\u0000\u007f\b";
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

test("no control character passes any door to the terminal, whatever the text", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const output = keptOutput();
      output.line(text);
      output.piece(text);
      output.progress(text);
      output.error(new HoldfastError("INTERNAL", text));
      expect(output.out() + output.err()).not.toMatch(CONTROL);
      const json = keptOutput({ isJson: true });
      json.json({ text });
      json.progress(text);
      json.error(new HoldfastError("INTERNAL", text));
      expect(json.out() + json.err()).not.toMatch(CONTROL);
    }),
  );
});

test("escape sequences of others are harmless on a terminal too, where ours are used", () => {
  const output = keptOutput({ isTerminal: true });
  output.line(HOSTILE, "bold");
  expect(output.out()).toBe("\u001b[1m]0;title[2J[1;1Hforged31mred\u001b[0m\n");
});

test("JSON stays JSON: what is escaped reads as what it was", () => {
  const value = { text: `${HOSTILE}\u2028\u202e🦑é` };
  expect(jsonLine(value)).not.toMatch(CONTROL);
  expect(jsonLine(value)).not.toMatch(/[\u2028\u202e]/);
  expect(JSON.parse(jsonLine(value))).toEqual(value);
});

test("a text of others in a line of ours adds no line and turns no direction", () => {
  expect(oneLine("a\r\n  b\n\nc\u2028d")).toBe("a b c d");
  expect(oneLine("a\u202egnp.exe\u2066")).toBe("agnp.exe");
  expect(printable("a\tb\nc")).toBe("a\tb\nc");
});

test("emoji, combining marks and right-to-left text pass unchanged", () => {
  const text = "👩‍👩‍👧 e\u0301 שלום 日本";
  expect(printable(text)).toBe(text);
  const output = keptOutput();
  output.piece(text);
  expect(output.out()).toBe(text);
});

test("a character that comes in two halves is shown whole", () => {
  const output = keptOutput();
  output.piece("a\ud83e");
  output.piece("\udd91b");
  output.endLine();
  expect(output.out()).toBe("a🦑b\n");
});

test("styles are for terminals: none in a pipe, none with NO_COLOR, each stream for itself", () => {
  const pipe = keptOutput();
  pipe.line("a", "bold");
  pipe.progress("b", "dim");
  expect(pipe.out() + pipe.err()).toBe("a\nb\n");

  let err = "";
  const mixed = createOutput({
    isJson: false,
    noColor: false,
    streams: {
      stdout: { isTTY: true, write: () => undefined },
      stderr: {
        isTTY: false,
        write: (text) => {
          err += text;
        },
      },
    },
  });
  mixed.progress("b", "dim");
  expect(err).toBe("b\n");

  let out = "";
  const noColor = createOutput({
    isJson: false,
    noColor: true,
    streams: {
      stdout: {
        isTTY: true,
        write: (text) => {
          out += text;
        },
      },
      stderr: { write: () => undefined },
    },
  });
  noColor.line("a", "bold");
  expect(out).toBe("a\n");
});

test("on one terminal a note gets a line of its own; a result in a pipe is not touched by notes", () => {
  const terminal = keptOutput({ isTerminal: true });
  terminal.piece("half");
  terminal.progress("note");
  expect(terminal.out()).toBe("half\n");
  const pipe = keptOutput();
  pipe.piece("half");
  pipe.progress("note");
  pipe.piece(" a line");
  pipe.endLine();
  pipe.endLine();
  expect(pipe.out()).toBe("half a line\n");
});

test("with --json each line of stderr is JSON: progress and errors, with code and next step", () => {
  const output = keptOutput({ isJson: true });
  output.progress("\nstarting");
  output.progress("  ");
  output.error(new HoldfastError("MEMBER_UNKNOWN", "no member m-1", { details: { member: "m-1" } }));
  const lines = output.err().trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    { progress: "starting" },
    {
      error: {
        code: "MEMBER_UNKNOWN",
        message: "no member m-1",
        details: { member: "m-1" },
        next: "List them with `holdfast member ls`.",
      },
    },
  ]);
});

test("an error is one line with code and next step, as the user types it here, and names the reason beneath", () => {
  const output = keptOutput({ callName: "npm run holdfast --" });
  const cause = new Error("EACCES: permission denied\n, open 'x'");
  output.error(new HoldfastError("STORE_ERROR", "the store can't be opened", { cause }));
  expect(output.err()).toBe(
    "holdfast: the store can't be opened (EACCES: permission denied , open 'x') [STORE_ERROR] " +
      "Run `npm run holdfast -- doctor`; check the disk.\n",
  );
  expect(output.command("doctor")).toBe("npm run holdfast -- doctor");
});

test("a table lines up its columns, keeps a row on a line, and pads no last column", () => {
  const text = table(["A", "LONG"], [["wide cell", "x"], ["b", "two\nlines \u001b[31m"], []]);
  expect(text.split("\n")).toEqual(["A          LONG", "wide cell  x", "b          two lines [31m", ""]);
});

test("a duration is said in seconds", () => {
  expect(seconds(0)).toBe("0.0 s");
  expect(seconds(61_049)).toBe("61.0 s");
});
