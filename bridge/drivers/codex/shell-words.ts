/**
 * The command that codex asks for, as the policy sees it: codex names the call of its shell (`/bin/bash -lc 'git push'`),
 * rules are about what the model wrote (`git push`). Pure.
 *
 * What codex says the command does (`commandActions`) is for display and leaves things out: no decision rests on it.
 */

/** Shells whose call is unwrapped. Another program could do anything with the words: it is shown as it is. */
const SHELLS = /^\/(usr\/)?bin\/(bash|sh|dash|zsh)$/;

/** @param command as codex joined it, quoted for a POSIX shell */
export function commandPattern(command: string): string {
  const words = shellWords(command);
  const [shell = "", option, script, ...more] = words ?? [];
  const isCall = SHELLS.test(shell) && (option === "-lc" || option === "-c") && more.length === 0;
  return isCall && script !== undefined ? script : command;
}

/** The words of a command without expansions; null when its quotes do not close. */
export function shellWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === "'") {
      const end = text.indexOf("'", at + 1);
      if (end < 0) return null;
      word = (word ?? "") + text.slice(at + 1, end);
      at = end;
    } else if (character === '"') {
      const quoted = doubleQuoted(text, at + 1);
      if (quoted === null) return null;
      word = (word ?? "") + quoted.text;
      at = quoted.end;
    } else if (character === "\\") {
      at += 1;
      if (at >= text.length) return null;
      word = (word ?? "") + text.charAt(at);
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + character;
    }
  }
  return word === null ? words : [...words, word];
}

/** Up to the closing quote; inside, a backslash takes the meaning of these four alone. */
function doubleQuoted(text: string, start: number): { text: string; end: number } | null {
  let taken = "";
  for (let at = start; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === '"') return { text: taken, end: at };
    const next = text.charAt(at + 1);
    if (character === "\\" && next !== "" && '$`"\\'.includes(next)) {
      taken += next;
      at += 1;
    } else taken += character;
  }
  return null;
}
