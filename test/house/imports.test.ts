import { posix } from "node:path";
import { expect, test } from "vitest";
import { importsOf, type Source, sourcesIn } from "./source.ts";

const folders = ["protocol", "bridge", "controller", "sandbox-image", "scripts", "bin"];

// Which folders' files a folder's files may import, beside its own.
const mayImport: Record<string, string[]> = {
  protocol: [],
  bridge: ["protocol"],
  controller: ["protocol"],
  "sandbox-image": [],
  scripts: ["sandbox-image"], // the engine's HTTP interface
  bin: ["controller"],
};

// Where an outside package may be imported, and in how many files at most.
const packageRules: { name: string; within: string; at: RegExp; most: number }[] = [
  { name: "msgpackr", within: "", at: /^protocol\/codec\.ts$/, most: 1 },
  { name: "ws", within: "", at: /^(bridge|controller)\//, most: 2 },
  { name: "eventsource-parser", within: "bridge/", at: /^(bridge|controller)\//, most: 1 },
  { name: "eventsource-parser", within: "", at: /^(bridge|controller\/preflight)\//, most: 2 },
  { name: "execa", within: "bridge/", at: /^bridge\//, most: 1 },
  { name: "execa", within: "", at: /^(bridge|controller\/sandboxes)\//, most: Number.POSITIVE_INFINITY },
];

test("imports follow the direction: controller and bridge to protocol, nothing to test", () => {
  expect(directionProblems(sourcesIn(...folders))).toEqual([]);
});

test("protocol imports zod, msgpackr and itself, nothing of node and no other package", () => {
  expect(protocolProblems(sourcesIn("protocol"))).toEqual([]);
});

test("each outside package is imported in as few files as the house allows", () => {
  expect(packageProblems(sourcesIn(...folders))).toEqual([]);
});

test("a forbidden direction is found in every form an import takes", () => {
  const forms = [
    `import { a } from "../controller/host.ts";`,
    `import type { A } from "../controller/host.ts";`,
    `import "../controller/host.ts";`,
    `export { a } from "../controller/host.ts";`,
    `export * from "../controller/host.ts";`,
    `const a = await import("../controller/host.ts");`,
    `type A = import("../controller/host.ts").A;`,
  ];
  for (const text of forms) expect(directionProblems([{ path: "bridge/a.ts", text }]), text).toHaveLength(1);
  const nested = { path: "bridge/drivers/opencode/a.ts", text: `import "../../../controller/host.ts";` };
  expect(directionProblems([nested])).toEqual(["bridge/drivers/opencode/a.ts:1 imports controller/host.ts"]);
});

test("permitted imports, comments and strings are let pass", () => {
  const text = `// import "../controller/a.ts"\nimport { b } from "../protocol/b.ts";\nconst s = 'from "../test/a.ts"';`;
  expect(directionProblems([{ path: "bridge/a.ts", text }])).toEqual([]);
  expect(directionProblems([{ path: "protocol/a.ts", text: `import "../test/a.ts";` }])).toHaveLength(1);
  expect(directionProblems([{ path: "scripts/a.ts", text: `import "../protocol/a.ts";` }])).toHaveLength(1);
});

test("node and strange packages are found in protocol", () => {
  const problems = (text: string) => protocolProblems([{ path: "protocol/a.ts", text }]);
  expect(problems(`import { readFileSync } from "node:fs";`)).toEqual(["protocol/a.ts:1 imports node:fs"]);
  expect(problems(`import fs from "fs";`)).toHaveLength(1);
  expect(problems(`import * as z from "zod/mini";\nimport { a } from "./a.ts";`)).toEqual([]);
});

test("a package in one file too many, or in a wrong place, is found", () => {
  const file = (path: string, name: string) => ({ path, text: `import "${name}";` });
  const ws = ["bridge/a.ts", "bridge/b.ts", "controller/c.ts"].map((path) => file(path, "ws"));
  expect(packageProblems(ws)).toHaveLength(1);
  expect(packageProblems(ws.slice(1))).toEqual([]);
  expect(packageProblems([file("protocol/frame.ts", "msgpackr")])).toHaveLength(1);
  expect(packageProblems([file("controller/host.ts", "execa")])).toHaveLength(1);
  expect(packageProblems([file("bridge/a.ts", "execa"), file("bridge/b.ts", "execa")])).toHaveLength(1);
});

function directionProblems(sources: Source[]): string[] {
  return sources.flatMap((source) => {
    const own = folderOf(source.path);
    return importsOf(source)
      .filter(({ specifier }) => specifier.startsWith("."))
      .map(({ specifier, line }) => ({ line, to: posix.join(posix.dirname(source.path), specifier) }))
      .filter(({ to }) => ![own, ...(mayImport[own] ?? [])].includes(folderOf(to)))
      .map(({ line, to }) => `${source.path}:${line} imports ${to}`);
  });
}

function protocolProblems(sources: Source[]): string[] {
  return sources.flatMap((source) =>
    importsOf(source)
      .filter(({ specifier }) => !specifier.startsWith("."))
      .filter(({ specifier }) => !["zod", "msgpackr"].includes(packageOf(specifier)))
      .map(({ specifier, line }) => `${source.path}:${line} imports ${specifier}`),
  );
}

function packageProblems(sources: Source[]): string[] {
  return packageRules.flatMap(({ name, within, at, most }) => {
    const files = sources
      .filter(({ path }) => path.startsWith(within))
      .filter((source) => importsOf(source).some(({ specifier }) => packageOf(specifier) === name))
      .map(({ path }) => path);
    const misplaced = files.filter((path) => !at.test(path)).map((path) => `${path} may not import ${name}`);
    const where = within || "the tree";
    const tooMany =
      files.length > most ? [`${name} in ${files.length} files of ${where}: ${files.join(", ")}`] : [];
    return [...misplaced, ...tooMany];
  });
}

function folderOf(path: string): string {
  return path.split("/")[0] ?? "";
}

function packageOf(specifier: string): string {
  const [first = "", second = ""] = specifier.split("/");
  return first.startsWith("@") ? `${first}/${second}` : first;
}
