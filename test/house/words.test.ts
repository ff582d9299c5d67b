// Text that must not be in the tree: what escapes the type check, what swallows errors, what names a machine.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import {
  filesBelow,
  lineAt,
  programOf,
  readText,
  root,
  type Source,
  type SyntaxNode,
  sourcesIn,
  walk,
} from "./source.ts";

const folders = ["protocol", "bridge", "controller", "sandbox-image", "scripts", "bin"];

test("no source says `as any`", () => {
  expect(sourcesIn(...folders).flatMap(anyCasts)).toEqual([]);
});

test("no catch block swallows its error without a word", () => {
  expect(sourcesIn(...folders).flatMap(emptyCatches)).toEqual([]);
});

test("lock files name no address, host or machine path", () => {
  const locks = ["package-lock.json", ...filesBelow("sandbox-image")].filter((path) =>
    path.endsWith("package-lock.json"),
  );
  expect(locks.flatMap((path) => lockProblems(path, readText(path, "the locked packages")))).toEqual([]);
});

test("beside every lock file, .npmrc keeps addresses out of it", () => {
  const locks = ["package-lock.json", ...filesBelow("sandbox-image")].filter((path) =>
    path.endsWith("package-lock.json"),
  );
  const setting = "omit-lockfile-registry-resolved=true";
  const unset = locks.filter((path) => {
    const npmrc = join(root, dirname(path), ".npmrc");
    return !existsSync(npmrc) || !readFileSync(npmrc, "utf8").includes(setting);
  });
  expect(unset, `no ${setting} beside these`).toEqual([]);
});

test("each of these is found where it stands", () => {
  const problems = (text: string, rule: (source: Source) => string[]) => rule({ path: "bridge/a.ts", text });
  expect(problems("const a = (b as any).c;", anyCasts)).toEqual(["bridge/a.ts:1 says `as any`"]);
  expect(problems(`const a = "as any"; // as any`, anyCasts)).toEqual([]);
  expect(problems("try { a(); } catch {}", emptyCatches)).toHaveLength(1);
  expect(problems("try { a(); } catch (error) {\n}", emptyCatches)).toHaveLength(1);
  expect(problems("a().catch(() => {});", emptyCatches)).toHaveLength(1);
  expect(problems("try { a(); } catch { /* gone already: that is what we want */ }", emptyCatches)).toEqual(
    [],
  );
  expect(problems("try { a(); } catch (error) { report(error); }", emptyCatches)).toEqual([]);
  expect(
    lockProblems("package-lock.json", `{ "a": { "resolved": "https://a.example/a.tgz" } }`),
  ).toHaveLength(1);
  expect(
    lockProblems("package-lock.json", `{ "a": { "resolved": "file:../a", "link": true } }`),
  ).toHaveLength(1);
  expect(lockProblems("package-lock.json", `{ "a": { "funding": { "url": "https://a.example" } } }`)).toEqual(
    [],
  );
});

function anyCasts(source: Source): string[] {
  return nodesOf(source)
    .filter(({ type }) => type === "TSAsExpression" || type === "TSTypeAssertion")
    .filter(({ typeAnnotation }) => (typeAnnotation as SyntaxNode).type === "TSAnyKeyword")
    .map(({ start }) => `${source.path}:${lineAt(source, start)} says \`as any\``);
}

/** A catch clause, or a function given to .catch(), with nothing in it: no statement, and no comment that says why. */
function emptyCatches(source: Source): string[] {
  return nodesOf(source)
    .filter((node) => {
      const block = node.type === "CatchClause" ? (node.body as SyntaxNode) : rejectionBody(node);
      if (block === undefined) return false;
      return /^\{\s*\}$/.test(source.text.slice(block.start, block.end));
    })
    .map(({ start }) => `${source.path}:${lineAt(source, start)} swallows an error in silence`);
}

function rejectionBody(node: SyntaxNode): SyntaxNode | undefined {
  if (node.type !== "CallExpression") return undefined;
  const { property } = node.callee as SyntaxNode & { property?: { name?: string } };
  const [handler] = node.arguments as SyntaxNode[];
  return property?.name === "catch" && handler?.body ? (handler.body as SyntaxNode) : undefined;
}

function nodesOf(source: Source): SyntaxNode[] {
  const nodes: SyntaxNode[] = [];
  walk(programOf(source), (node) => nodes.push(node));
  return nodes;
}

function lockProblems(path: string, text: string): string[] {
  const found: string[] = [];
  JSON.parse(text, (key, value: unknown) => {
    if (key === "resolved") found.push(`${path}: resolved ${String(value)}`);
    return value;
  });
  return found;
}
