/**
 * What a policy must see of a shell line: the line itself and each command in it, since a rule for `git push*` is meant
 * for `cd repo && git push` too (OpenCode names each by itself). Pure, and linear in the line.
 *
 * Commands are cut at `;`, `&`, `|`, line ends and parentheses, and taken out of `$(…)`, backticks and documents behind
 * `<<`; quotes hold them together. What it can't tell it takes for a command: the strictest verdict of all holds. It is
 * no boundary: `sh -c`, `eval`, `xargs` and their like can hide a command from any reader of text.
 */

type Frame =
  /** Where commands stand; the current one begins at `start`. */
  | { kind: "plain"; start: number; closes: ")" | "`" | null; isSubshell: boolean }
  /** Inside double quotes: runs nothing but what is substituted. */
  | { kind: "double" };

/** Words of the shell's own before a command, assignments and redirections among them. */
const BEFORE =
  /^(?:(?:if|then|elif|else|do|while|until|time|coproc|!|\{)\s+|[A-Za-z_]\w*\+?=(?:'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]|[^\s'"\\])*\s+|\d*(?:>>|[<>])&?\s*[^\s<>]+\s+)/;
/** Pieces that run nothing themselves. */
const EMPTY = /^(?:fi|done|esac|then|do|else|\{|\}|!|(?:for|case|select)\s[\s\S]*)?$/;
/** A document's end as it is named behind `<<`. */
const DOCUMENT = /(-?)[ \t]*('[^'\n]+'|"[^"\n]+"|\\?[^\s'"\\;&|()<>]+)/y;
/** Levels of commands inside of commands. Beyond: cut at every mark, quoted or not. */
const LEVELS = 16;
/** Documents inside of documents. Beyond: the same. */
const DOCUMENTS = 2;
const MARKS = /[;&|()`\n]/;

/** The line, and behind it each of its commands that is not the whole line. */
export function commandPatterns(line: string): string[] {
  const whole = line.trim();
  return [...new Set([line, ...commandsOf(line, 0).filter((command) => command !== whole)])];
}

function commandsOf(text: string, depth: number): string[] {
  const commands: string[] = [];
  const outer: Frame[] = [];
  let frame: Frame = { kind: "plain", start: 0, closes: null, isSubshell: false };
  /** Documents whose text begins behind the line's end. */
  let awaited: RegExpExecArray[] = [];
  let isTooDeep = depth > DOCUMENTS;

  function open(next: Frame): void {
    isTooDeep ||= outer.length >= LEVELS;
    outer.push(frame);
    frame = next;
  }

  /** The current command ends here, and the next one begins there. */
  function cut(end: number, next: number): void {
    if (frame.kind !== "plain") return;
    const command = stripped(text.slice(frame.start, end));
    if (command !== "") commands.push(command);
    frame.start = next;
  }

  function close(at: number): void {
    const isSubshell = frame.kind === "plain" && frame.isSubshell;
    cut(at, at + 1);
    frame = outer.pop() ?? frame;
    if (isSubshell && frame.kind === "plain") frame.start = at + 1;
  }

  /** Where to go on behind the documents that begin here. */
  function readDocuments(from: number): number {
    let at = from;
    for (const [, dash = "", word = ""] of awaited) {
      const { end, next } = documentEnd(text, at, word.replace(/^['"\\]|['"]$/g, ""), dash !== "");
      // As in double quotes; the last one is the document itself.
      if (!/^['"\\]/.test(word))
        for (const command of commandsOf(`"${text.slice(at, end).replaceAll('"', " ")}"`, depth + 1).slice(
          0,
          -1,
        ))
          commands.push(command);
      at = next;
    }
    awaited = [];
    return at;
  }

  for (let at = 0; at < text.length && !isTooDeep; at += 1) {
    const character = text.charAt(at);
    const closes = frame.kind === "plain" ? frame.closes : null;
    if (character === "\\") at += 1;
    else if (character === "`" && closes === "`") close(at);
    else if (character === "`") open({ kind: "plain", start: at + 1, closes: "`", isSubshell: false });
    else if (character === "$" && text[at + 1] === "(") {
      at += 1;
      open({ kind: "plain", start: at + 1, closes: ")", isSubshell: false });
    } else if (frame.kind === "double") {
      if (character === '"') frame = outer.pop() ?? frame;
    } else if (character === '"') open({ kind: "double" });
    else if (character === "'") at = quoteEnd(text, at);
    else if (character === "#" && (at === frame.start || /[\s;&|()]/.test(text.charAt(at - 1)))) {
      const end = text.indexOf("\n", at);
      cut(at, end < 0 ? text.length : end);
      at = (end < 0 ? text.length : end) - 1;
    } else if (text.startsWith("<<<", at)) at += 2;
    else if (text.startsWith("<<", at)) {
      DOCUMENT.lastIndex = at + 2;
      const document = DOCUMENT.exec(text);
      if (document !== null) awaited.push(document);
      at = document === null ? at + 1 : DOCUMENT.lastIndex - 1;
    } else if (character === "(") {
      cut(at, at + 1);
      open({ kind: "plain", start: at + 1, closes: ")", isSubshell: true });
    } else if (character === ")") {
      if (closes === ")") close(at);
      else cut(at, at + 1);
    } else if (character === "\n") {
      const next = readDocuments(at + 1);
      cut(at, next);
      at = next - 1;
    } else if (character === ";" || (/[&|]/.test(character) && !isRedirection(text, at))) cut(at, at + 1);
  }
  if (isTooDeep) return text.split(MARKS).map(stripped).filter(Boolean);
  for (let last: Frame | undefined = frame; last !== undefined; last = outer.pop()) {
    frame = last;
    cut(text.length, text.length);
  }
  return commands;
}

/** `2>&1`, `&>file` and `>|file` end no command. */
function isRedirection(text: string, at: number): boolean {
  const before = text.charAt(at - 1);
  if (text[at] === "|") return before === ">";
  return before === ">" || before === "<" || (text[at + 1] === ">" && before !== "&");
}

/** The closing quote; in `$'…'` a backslash takes the meaning of one. */
function quoteEnd(text: string, start: number): number {
  if (text[start - 1] !== "$") {
    const end = text.indexOf("'", start + 1);
    return end < 0 ? text.length : end;
  }
  let at = start + 1;
  while (at < text.length && text[at] !== "'") at += text[at] === "\\" ? 2 : 1;
  return at;
}

/** Where the document's text ends, and where the line behind its last one begins. */
function documentEnd(text: string, from: number, word: string, isIndented: boolean) {
  for (let at = from; at < text.length; ) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    const next = end < 0 ? text.length : end + 1;
    if ((isIndented ? line.replace(/^\t+/, "") : line) === word) return { end: at, next };
    at = next;
  }
  return { end: text.length, next: text.length };
}

function stripped(piece: string): string {
  let command = piece.trim();
  for (let before = BEFORE.exec(command); before !== null; before = BEFORE.exec(command))
    command = command.slice(before[0].length);
  return EMPTY.test(command) ? "" : command;
}
