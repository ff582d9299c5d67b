import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { readText, root } from "./source.ts";

test("docs/errors.md has every code of the catalogue, and no other", async () => {
  const codes = Object.keys(await table("protocol/errors.ts", "ERROR_CATALOGUE"));
  const text = readText("docs/errors.md", "a row or heading for every code of protocol/errors.ts");
  expect(compare(codes, documentedCodes(text))).toEqual({ undocumented: [], unknown: [] });
});

test("docs/protocol.md names every method", async () => {
  const methods = Object.keys(await table("protocol/methods.ts", "METHODS"));
  const text = readText("docs/protocol.md", "a place for every method of protocol/methods.ts");
  expect(methods.filter((method) => !text.includes(`\`${method}\``))).toEqual([]);
});

test("docs/protocol.md names every kind of frame", async () => {
  const kinds = Object.keys(await table("protocol/frame.ts", "FRAMES"));
  const text = readText("docs/protocol.md", "a place for every frame of protocol/frame.ts");
  expect(kinds.filter((kind) => !text.includes(`\`${kind}\``))).toEqual([]);
});

test("a code without a row and a row without a code are found", () => {
  const text = "| `USAGE` | a row |\n### `GONE_CODE`\nIn running text `NOT_COUNTED` is no row.\n";
  expect(compare(["USAGE", "FENCED"], documentedCodes(text))).toEqual({
    undocumented: ["FENCED"],
    unknown: ["GONE_CODE"],
  });
});

/** A documented code stands in backticks at the start of a table row or a heading. */
function documentedCodes(text: string): string[] {
  return [...text.matchAll(/^(?:\||#+)\s*`([A-Z][A-Z0-9_]*)`/gm)].map(([, code = ""]) => code);
}

function compare(codes: string[], documented: string[]): { undocumented: string[]; unknown: string[] } {
  return {
    undocumented: codes.filter((code) => !documented.includes(code)),
    unknown: documented.filter((code) => !codes.includes(code)),
  };
}

/** A table that a file of protocol exports (protocol is pure: loading it does nothing). */
async function table(path: string, name: string): Promise<Record<string, unknown>> {
  readText(path, `it exports ${name}`);
  const exported = (await import(pathToFileURL(`${root}/${path}`).href)) as Record<string, unknown>;
  const value = exported[name];
  if (typeof value !== "object" || value === null) throw new Error(`${path} exports no object ${name}`);
  return value as Record<string, unknown>;
}
