// docs/protocol.md and docs/errors.md against the schemas and the catalogue, both ways.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { HelperReport } from "../../protocol/attestation.ts";
import { ERROR_CATALOGUE, WireError } from "../../protocol/errors.ts";
import { ControlEvent } from "../../protocol/events.ts";
import { Evidence } from "../../protocol/evidence.ts";
import { Cursor, FRAMES } from "../../protocol/frame.ts";
import { Launch } from "../../protocol/launch.ts";
import { LaunchParts } from "../../protocol/launch-parts.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { ContainerIdentity, Locator } from "../../protocol/locator.ts";
import { METHODS } from "../../protocol/methods.ts";
import { PermissionRequest } from "../../protocol/permission.ts";
import { MemberPolicy } from "../../protocol/permission-policy.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../../protocol/pin.ts";
import { QuestionRequest } from "../../protocol/question.ts";
import { SettledSession, Settlement, Timings } from "../../protocol/settlement.ts";
import { Usage } from "../../protocol/usage.ts";

const read = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), "utf8");
const PROTOCOL = read("protocol.md");
const ERRORS = read("errors.md");

/** The text below each heading of this level, by the heading's words. */
function sections(text: string, level: number): Map<string, string> {
  const mark = "#".repeat(level);
  const parts = text.split(new RegExp(`^${mark} (.+)$`, "m")).slice(1);
  const found = new Map<string, string>();
  for (let at = 0; at < parts.length; at += 2) {
    const heading = (parts[at] ?? "").trim();
    expect(found.has(heading), `${heading} stands once`).toBe(false);
    found.set(heading, (parts[at + 1] ?? "").split(/^#{1,3} /m)[0] ?? "");
  }
  return found;
}

/** The part of the page below one heading of the second level, with the headings inside it. */
function chapter(name: string): string {
  const [, text = ""] = PROTOCOL.split(new RegExp(`^## ${name}$`, "m"));
  expect(text, `the page has a chapter ${name}`).not.toBe("");
  return text.split(/^## /m)[0] ?? "";
}

/** Headings in backticks, without them, and the text below each. */
function named(name: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [heading, text] of sections(chapter(name), 3)) {
    expect(heading, `a heading of ${name}`).toMatch(/^`[^`]+`$/);
    found.set(heading.slice(1, -1), text);
  }
  return found;
}

/** First cells of a table that are in backticks. */
function cells(text: string): string[] {
  return [...text.matchAll(/^\| `([^`]+)` +\|/gm)].map(([, cell = ""]) => cell);
}

function fields(schema: { shape: Record<string, unknown> }, ...except: string[]): string[] {
  return Object.keys(schema.shape).filter((field) => !except.includes(field));
}

test("the page has every frame and no other, each with exactly its fields", () => {
  const frames = named("Frames");
  expect([...frames.keys()]).toEqual(Object.keys(FRAMES));
  for (const [kind, schema] of Object.entries(FRAMES)) {
    expect(cells(frames.get(kind) ?? ""), kind).toEqual(fields(schema, "kind"));
  }
});

test("the page has every method and no other, each with exactly its params, result and errors", () => {
  const methods = named("Methods");
  expect([...methods.keys()]).toEqual(Object.keys(METHODS));
  for (const [name, { params, result, errors }] of Object.entries(METHODS)) {
    const text = methods.get(name) ?? "";
    expect(cells(text), name).toEqual([
      ...fields(params).map((field) => `params.${field}`),
      ...fields(result).map((field) => `result.${field}`),
    ]);
    const [, said = ""] = text.split(/^Errors: /m);
    expect(
      [...said.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => code),
      name,
    ).toEqual([...errors]);
    expect(said.startsWith("none of its own."), name).toBe(errors.length === 0);
  }
});

test("the page has every control event and no other, each with exactly its fields", () => {
  const events = named("Control events");
  const options = ControlEvent.def.options;
  expect([...events.keys()]).toEqual(options.map((option) => option.shape.type.def.values[0]));
  for (const option of options) {
    const type = option.shape.type.def.values[0] ?? "";
    expect(cells(events.get(type) ?? ""), type).toEqual(fields(option, "type", "member", "turn"));
    expect("turn" in option.shape, type).toBe(type.startsWith("turn."));
  }
});

test("the page has every shared value with exactly its fields", () => {
  const values = sections(chapter("Values"), 3);
  const schemas = {
    Error: WireError,
    Cursor,
    Evidence,
    Settlement,
    Session: SettledSession,
    Timings,
    Usage,
    Launch,
    "Launch parts": LaunchParts,
    "Permission policy": MemberPolicy,
    Locator,
    Container: ContainerIdentity,
    "Permission request": PermissionRequest,
    Question: QuestionRequest,
  };
  expect([...values.keys()]).toEqual(Object.keys(schemas));
  for (const [name, schema] of Object.entries(schemas)) {
    expect(cells(values.get(name) ?? ""), name).toEqual(fields(schema));
  }
  expect(fields(HelperReport)).toEqual(fields(METHODS["bridge.challenge"].result));
});

test("the page has every limit with its value, and no other", () => {
  const rows = [...chapter("Limits").matchAll(/^\| `(\w+)` +\| (\d+) +\|/gm)].map(([, name = "", value]) => [
    name,
    Number(value),
  ]);
  const byName = (a: [string, number], b: [string, number]) => a[0].localeCompare(b[0]);
  expect((rows as Array<[string, number]>).sort(byName)).toEqual(Object.entries(LIMITS).sort(byName));
});

test("the page names the pin and every feature that it promises", () => {
  const versions = chapter("Versions");
  expect(versions).toContain(`\`${HELPER_PIN}\``);
  const promised = [...versions.matchAll(/`([a-z]+(?:-[a-z]+)+)`/g)].map(([, feature]) => feature);
  expect(promised).toEqual([...HELPER_FEATURES]);
});

test("docs/errors.md has every code of the catalogue and no other, in its order", () => {
  const codes = [...sections(ERRORS, 2).keys()];
  expect(codes).toEqual(Object.keys(ERROR_CATALOGUE).map((code) => `\`${code}\``));
});

test("each code of docs/errors.md says when it is given, and the catalogue's own next step", () => {
  const texts = sections(ERRORS, 2);
  for (const [code, { next }] of Object.entries(ERROR_CATALOGUE)) {
    const text = texts.get(`\`${code}\``) ?? "";
    expect(text, code).toMatch(/^When: \S.{10,}/m);
    expect(text.replaceAll("\n", " "), code).toContain(`Next: ${next}`);
  }
});
