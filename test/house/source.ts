// What the house tests read: the tree as text and as syntax trees. Runs nothing of it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "vite";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

export type Source = { path: string; text: string };
export type Import = { specifier: string; line: number };
export type SyntaxNode = { type: string; start: number; end: number; [field: string]: unknown };

/** All TypeScript and JavaScript files below these folders, paths from the root with "/". */
export function sourcesIn(...folders: string[]): Source[] {
  return folders.flatMap(filesBelow).filter(isCode).map(readSource);
}

export function isThere(path: string): boolean {
  return existsSync(join(root, path));
}

/** The text of a file of the tree; says which file and why it is wanted when it is missing. */
export function readText(path: string, wantedFor: string): string {
  if (!isThere(path)) throw new Error(`${path} is missing (wanted: ${wantedFor})`);
  return readFileSync(join(root, path), "utf8");
}

export function filesBelow(folder: string): string[] {
  if (!isThere(folder)) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (entry.isDirectory())
      return ["node_modules", "dist", ".git"].includes(entry.name) ? [] : filesBelow(path);
    return entry.isFile() ? [path] : [];
  });
}

/** Every static, dynamic and type import, and every re-export, with a literal specifier. */
export function importsOf(source: Source): Import[] {
  const found: Import[] = [];
  walk(programOf(source), (node) => {
    const specifier = specifierOf(node);
    if (specifier !== undefined) found.push({ specifier, line: lineAt(source, node.start) });
  });
  return found;
}

export function programOf({ path, text }: Source): SyntaxNode {
  const isScript = /\.[cm]?js$/.test(path);
  return parseAst(text, { lang: isScript ? "js" : "ts" }, path) as unknown as SyntaxNode;
}

export function walk(node: SyntaxNode, visit: (node: SyntaxNode) => void): void {
  visit(node);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) walk(child, visit);
  }
}

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}

export function lineAt({ text }: Source, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

const withSource = [
  "ImportDeclaration",
  "ExportNamedDeclaration",
  "ExportAllDeclaration",
  "ImportExpression",
  "TSImportType",
];

function specifierOf(node: SyntaxNode): string | undefined {
  if (!withSource.includes(node.type)) return undefined;
  const source = node.source ?? node.argument;
  return isNode(source) && typeof source.value === "string" ? source.value : undefined;
}

function readSource(path: string): Source {
  return { path, text: readFileSync(join(root, path), "utf8") };
}

function isCode(path: string): boolean {
  return /\.(ts|mts|js|mjs)$/.test(path) && !path.endsWith(".d.ts");
}
