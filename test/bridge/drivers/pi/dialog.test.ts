import { expect, test } from "vitest";
import {
  checkedReply,
  dialogReply,
  type QuestionDialog,
  questionRequest,
  readDialog,
  readStatus,
} from "../../../../bridge/drivers/pi/dialog.ts";
import type { UiRequest } from "../../../../bridge/drivers/pi/native-message.ts";
import { QuestionRequest } from "../../../../protocol/question.ts";

const ui = (method: string, more: Partial<UiRequest> = {}): UiRequest => ({
  type: "extension_ui_request",
  id: "d1",
  method,
  ...more,
});

const PERMISSION = { say: "permission", call: "c1", tool: "bash", patterns: ["rm -rf /"] };
const ask = (title: unknown, options = ["allow", "reject"]) =>
  readDialog(ui("select", { title: typeof title === "string" ? title : JSON.stringify(title), options }));

function question(method: string, more: Partial<UiRequest>): QuestionDialog {
  const dialog = readDialog(ui(method, more));
  if (dialog?.kind !== "question") throw new Error(`a ${method} is no question`);
  // Whatever is in it fits on the wire.
  expect(QuestionRequest.safeParse(questionRequest(dialog, "s1")).success).toBe(true);
  return dialog;
}

test("our extension's dialog about a tool is a permission, with what the call acts on whole", () => {
  const long = "x".repeat(10_000);
  expect(ask({ ...PERMISSION, patterns: [long] })).toEqual({
    kind: "permission",
    id: "d1",
    call: "c1",
    tool: "bash",
    patterns: [long],
  });
});

test.each([
  ["of another extension", "Delete everything?"],
  ["with another word", { ...PERMISSION, say: "permit" }],
  ["without its tool", { ...PERMISSION, tool: undefined }],
  ["with a tool of no name", { ...PERMISSION, tool: "" }],
  ["with patterns that are none", { ...PERMISSION, patterns: "rm" }],
  ["cut in its middle", JSON.stringify(PERMISSION).slice(0, -5)],
])("a dialog %s is never a permission", (_what, title) => {
  expect(ask(title)?.kind).toBe("question");
});

test("a dialog that imitates ours with other answers is never a permission", () => {
  expect(ask(PERMISSION, ["yes", "no"])?.kind).toBe("question");
  expect(ask(PERMISSION, ["reject", "allow"])?.kind).toBe("question");
  expect(readDialog(ui("confirm", { title: JSON.stringify(PERMISSION) }))?.kind).toBe("question");
});

test("the model's question keeps its items, and its answers go back as JSON", () => {
  const items = [
    {
      header: "H",
      question: "Which?",
      options: [{ label: "a", description: "" }],
      isMultiple: true,
      isOpen: false,
    },
    { header: "", question: "Name?", options: [], isMultiple: false, isOpen: true },
  ];
  const dialog = question("input", { title: JSON.stringify({ say: "question", call: "c7", items }) });
  expect(dialog).toMatchObject({ call: "c7", items, timeoutMs: null });
  expect(checkedReply(dialog, "s1", [["a"], ["Ann"]])).toEqual({ value: '[["a"],["Ann"]]' });
  expect(() => checkedReply(dialog, "s1", [["b"], ["Ann"]])).toThrow(
    expect.objectContaining({ code: "REQUEST_INVALID" }),
  );
});

test("an input of another extension, or one of ours that is not whole, is an open question", () => {
  const whole = { say: "question", call: "c7", items: [] };
  for (const title of ["Your name?", JSON.stringify(whole)]) {
    const dialog = question("input", { title, placeholder: "as you like" });
    expect(dialog.items).toEqual([
      { header: "as you like", question: title, options: [], isMultiple: false, isOpen: true },
    ]);
    expect(checkedReply(dialog, "s1", [["Ann"]])).toEqual({ value: "Ann" });
  }
});

test("a select offers its options, and takes no other answer", () => {
  const dialog = question("select", { title: "Colour?", options: ["red", "blue"], timeout: 900 });
  expect(dialog.timeoutMs).toBe(900);
  expect(dialog.items[0]?.options.map(({ label }) => label)).toEqual(["red", "blue"]);
  expect(checkedReply(dialog, "s1", [["blue"]])).toEqual({ value: "blue" });
  expect(() => checkedReply(dialog, "s1", [["green"]])).toThrow();
});

test("options beyond the wire's bounds can still be named, and are answered whole", () => {
  const long = `${"y".repeat(3000)}!`;
  const options = [...Array.from({ length: 80 }, (_, at) => `option ${at}`), long];
  const dialog = question("select", { title: "One of many?", options });
  expect(dialog.items[0]?.options).toHaveLength(64);
  expect(checkedReply(dialog, "s1", [["option 79"]])).toEqual({ value: "option 79" });
  expect(checkedReply(dialog, "s1", [["y".repeat(2000)]])).toEqual({ value: long });
  expect(() => checkedReply(dialog, "s1", [["option 80"]])).toThrow();
});

test("a confirm is yes or no", () => {
  const dialog = question("confirm", { title: "Sure?", message: "All of it." });
  expect(dialog.items[0]).toMatchObject({ header: "Sure?", question: "All of it.", isOpen: false });
  expect(checkedReply(dialog, "s1", [["Yes"]])).toEqual({ confirmed: true });
  expect(checkedReply(dialog, "s1", [["No"]])).toEqual({ confirmed: false });
  expect(() => checkedReply(dialog, "s1", [["Perhaps"]])).toThrow();
});

test("an editor is an open question that shows what is to be edited", () => {
  const dialog = question("editor", { title: "Edit", prefill: "line 1\nline 2" });
  expect(dialog.items[0]).toMatchObject({ header: "Edit", question: "line 1\nline 2", isOpen: true });
  expect(checkedReply(dialog, "s1", [["line 3"]])).toEqual({ value: "line 3" });
});

test.each(["notify", "setStatus", "setWidget", "setTitle", "set_editor_text", "brand_new"])(
  "nothing waits for a reply to %s",
  (method) => {
    expect(readDialog(ui(method, { title: "x", message: "y" }))).toBeNull();
  },
);

test("a reply names its dialog", () => {
  expect(dialogReply("d1", { cancelled: true })).toEqual({
    type: "extension_ui_response",
    id: "d1",
    cancelled: true,
  });
});

test("a status line of ours is read, one of another key or shape is not", () => {
  const hello = { say: "hello", version: "1.6.0", cwd: "/w", entries: 3, isWhole: true };
  const decided = { say: "decided", call: "c1", isAllowed: false };
  const status = (value: unknown, statusKey = "holdfast") =>
    readStatus(ui("setStatus", { statusKey, statusText: JSON.stringify(value) }));
  expect(status(hello)).toEqual(hello);
  expect(status(decided)).toEqual(decided);
  expect(status(hello, "another")).toBeNull();
  expect(status({ ...hello, version: 1 })).toBeNull();
  expect(readStatus(ui("setStatus", { statusKey: "holdfast", statusText: "Turn 3" }))).toBeNull();
  expect(readStatus(ui("setStatus", { statusKey: "holdfast" }))).toBeNull();
  expect(readStatus(ui("notify", { statusKey: "holdfast", statusText: JSON.stringify(hello) }))).toBeNull();
});
