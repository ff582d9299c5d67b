// The public surface is pinned: a changed list fails until `npx vitest run test/house/exports.test.ts -u` pins it anew.
import { expect, test } from "vitest";
import { isNode, programOf, readText, type Source, type SyntaxNode } from "./source.ts";

for (const folder of ["protocol", "controller"]) {
  test(`${folder}/index.ts exports exactly the pinned list`, async () => {
    const surface = surfaceOf(index(folder));
    expect(surface.problems).toEqual([]);
    await expect(`${surface.names.join("\n")}\n`).toMatchFileSnapshot(`exports/${folder}.txt`);
  });
}

test("an index that declares, stars or defaults is found", () => {
  const problems = (text: string) => surfaceOf({ path: "protocol/index.ts", text }).problems;
  expect(problems(`export { a, b as c } from "./a.ts";\nexport type { D } from "./d.ts";`)).toEqual([]);
  expect(problems(`export * from "./a.ts";`)).toHaveLength(1);
  expect(problems("export const a = 1;")).toHaveLength(1);
  expect(problems(`export { default } from "./a.ts";`)).toHaveLength(1);
});

test("exported names are listed sorted, types told apart", () => {
  const text = `export { b, a as c, type E } from "./a.ts";\nexport type { D } from "./d.ts";`;
  expect(surfaceOf({ path: "protocol/index.ts", text }).names).toEqual(["b", "c", "type D", "type E"]);
});

function index(folder: string): Source {
  const path = `${folder}/index.ts`;
  return { path, text: readText(path, "the explicit list of exports, nothing else") };
}

function surfaceOf(source: Source): { names: string[]; problems: string[] } {
  const names: string[] = [];
  const problems: string[] = [];
  for (const node of programOf(source).body as SyntaxNode[]) {
    if (node.type !== "ExportNamedDeclaration" || !isNode(node.source)) {
      problems.push(
        `${source.path}: only \`export { names } from "./file.ts"\` belongs here, not ${node.type}`,
      );
      continue;
    }
    for (const specifier of node.specifiers as SyntaxNode[]) {
      const name = isNode(specifier.exported) ? String(specifier.exported.name) : "";
      const isType = node.exportKind === "type" || specifier.exportKind === "type";
      if (name === "default") problems.push(`${source.path}: exports a default`);
      names.push(isType ? `type ${name}` : name);
    }
  }
  return { names: names.sort(), problems };
}
