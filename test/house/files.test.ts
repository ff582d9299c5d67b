import { expect, test } from "vitest";
import { withoutTest } from "./exceptions.ts";
import { isThere, programOf, type Source, type SyntaxNode, sourcesIn } from "./source.ts";

const mostLines = 400;

test("no source file is over 400 lines", () => {
  expect(longFiles(sourcesIn("protocol", "bridge", "controller", "sandbox-image", "scripts", "bin"))).toEqual(
    [],
  );
});

test("every file of protocol, bridge and controller has its test file", () => {
  const untested = sourcesIn("protocol", "bridge", "controller")
    .filter(({ path }) => !/(^|\/)(index|main)\.ts$/.test(path) && !(path in withoutTest))
    .filter(({ path }) => !isThere(testOf(path)))
    .map(({ path }) => `${path} has no ${testOf(path)}`);
  expect(untested).toEqual([]);
});

test("every exception to that is needed: the file exists, holds types only and has a reason", () => {
  const sources = new Map(
    sourcesIn("protocol", "bridge", "controller").map((source) => [source.path, source]),
  );
  const wrong = Object.entries(withoutTest).flatMap(([path, reason]) => {
    const source = sources.get(path);
    if (source === undefined) return [`${path} does not exist`];
    if (isThere(testOf(path))) return [`${path} has a test by now`];
    if (!holdsTypesOnly(source)) return [`${path} holds more than types`];
    return reason.length < 10 ? [`${path} has no reason`] : [];
  });
  expect(wrong).toEqual([]);
});

test("a line over the limit is found, and a file at the limit is not", () => {
  expect(longFiles([{ path: "bridge/a.ts", text: "x\n".repeat(400) }])).toEqual([]);
  expect(longFiles([{ path: "bridge/a.ts", text: "x\n".repeat(401) }])).toEqual(["bridge/a.ts: 401 lines"]);
});

test("types alone are told from code", () => {
  const text = `import type { A } from "./a.ts";\nexport type B = A;\ninterface C { c: B }\nexport type { C };`;
  expect(holdsTypesOnly({ path: "bridge/a.ts", text })).toBe(true);
  expect(holdsTypesOnly({ path: "bridge/a.ts", text: `${text}\nexport const d = 1;` })).toBe(false);
  expect(holdsTypesOnly({ path: "bridge/a.ts", text: `export { d } from "./d.ts";` })).toBe(false);
});

function longFiles(sources: Source[]): string[] {
  return sources
    .map(({ path, text }) => ({ path, lines: text.split("\n").length - (text.endsWith("\n") ? 1 : 0) }))
    .filter(({ lines }) => lines > mostLines)
    .map(({ path, lines }) => `${path}: ${lines} lines`);
}

function testOf(path: string): string {
  return `test/${path.replace(/\.ts$/, ".test.ts")}`;
}

function holdsTypesOnly(source: Source): boolean {
  const { body } = programOf(source);
  return (body as SyntaxNode[]).every(
    (node) =>
      node.importKind === "type" ||
      node.exportKind === "type" ||
      node.type === "TSTypeAliasDeclaration" ||
      node.type === "TSInterfaceDeclaration",
  );
}
