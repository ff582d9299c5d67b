// The stand-in must not drift from the truth: what it plays by itself has the kinds and the order of the recordings.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import type { Script } from "../../../stand-ins/codex/script.ts";
import { standIn } from "../../../support/stand-in.ts";
import { temporaryDirectory } from "../../../support/temporary-directory.ts";
import { rowsOf } from "./captured.ts";
import { THREAD } from "./rig.ts";

type Line = Record<string, unknown>;

/** What of a line the order is about: answer or method, kind of item, status. Repeats are left out. */
function signatures(lines: readonly Line[]): string[] {
  const all = lines.flatMap((line) => {
    const params = (line.params ?? {}) as {
      item?: { type: string };
      status?: { type: string };
      turn?: { status: string };
    };
    if (line.method === "thread/started") return [];
    const result = line.result as { turn?: { status: string } } | undefined;
    return [
      [
        line.method ?? (line.error === undefined ? "result" : "error"),
        params.item?.type,
        params.status?.type,
        params.turn?.status ?? result?.turn?.status,
      ]
        .filter(Boolean)
        .join(" "),
    ];
  });
  return all.filter((line, at) => line !== all[at - 1]);
}

/** The stand-in, asked with these lines one after the other, each when the one before has its answer; up to the end of a turn. */
async function played(script: Script, asked: readonly Line[]): Promise<Line[]> {
  const path = join(temporaryDirectory(), "script.json");
  writeFileSync(path, JSON.stringify(script));
  const [file = "", ...args] = standIn("codex/main.ts", path);
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines: Line[] = [];
  const rest = [...asked];
  const next = () => {
    const line = rest.shift();
    if (line !== undefined) child.stdin.write(`${JSON.stringify(line)}\n`);
    if (line !== undefined && line.id === undefined) next();
  };
  next();
  for await (const text of createInterface({ input: child.stdout })) {
    const line = JSON.parse(text) as Line;
    lines.push(line);
    if (line.method === undefined) next();
    if (line.method === "turn/completed") break;
  }
  return lines;
}

/** What was asked and answered in a recording up to the end of its first turn. */
function recorded(name: string): { asked: Line[]; printed: Line[] } {
  const rows = rowsOf(name);
  const end = rows.findIndex(({ d }) => d.method === "turn/completed");
  const first = rows.slice(0, end + 1);
  const started = first.find(({ d }) => d.method === "thread/started")?.d.params ?? {};
  const { thread } = started as { thread: { id: string } };
  const of = (ch: string) =>
    first.flatMap(({ ch: from, d }) =>
      from === ch ? [JSON.parse(JSON.stringify(d).replaceAll(thread.id, THREAD)) as Line] : [],
    );
  return { asked: of("stdin"), printed: of("stdout") };
}

test("a plain turn is played as it was recorded", async () => {
  const { asked, printed } = recorded("plain");
  expect(signatures(await played({}, asked))).toEqual(signatures(printed));
});

test("an interrupt with an outdated id, and the one behind it, are played as they were recorded", async () => {
  const { asked, printed } = recorded("interrupts");
  const lines = await played(
    {
      prompts: [{ steps: [{ say: "on" }] }],
      refuse: { "turn/interrupt": ["expected active turn id x but found TURN", null] },
    },
    asked,
  );
  const isOfInterrupt = (line: string) => /^(result|error|turn\/|thread\/status)/.test(line);
  expect(signatures(lines).filter(isOfInterrupt)).toEqual(signatures(printed).filter(isOfInterrupt));
});
