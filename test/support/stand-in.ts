// The command of a small program in test/stand-ins.

export function standIn(name: string, ...args: string[]): string[] {
  const path = new URL(`../stand-ins/${name}`, import.meta.url).pathname;
  return [name.endsWith(".sh") ? "/bin/sh" : process.execPath, path, ...args];
}
