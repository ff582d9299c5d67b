// The view on recorded turns of both pinned versions: what each ended as, with what text, and that nothing of it leaks.
import { expect, test } from "vitest";
import { createAgents } from "../../../../bridge/drivers/claude/agents.ts";
import { createTurnView, type ViewChange } from "../../../../bridge/drivers/claude/turn-view.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { turnOf } from "./captured.ts";

const VERSIONS = ["2.1.220", "2.1.332"] as const;

/** Feeds a recorded turn; a grace is over when the recording goes on with nothing. */
function play(name: string, text: string): { changes: ViewChange[]; parts: string[] } {
  const { own, messages } = turnOf(name, text);
  const agents = createAgents("root");
  const view = createTurnView({ ownMessage: own, agents, earlierTail: { role: "assistant", id: "earlier" } });
  const changes: ViewChange[] = [];
  for (const message of messages) {
    if (message.type === "system" && message.subtype === "task_started" && message.tool_use_id != null)
      agents.started(message.task_id, message.tool_use_id, message.description ?? "");
    changes.push(...view.take(message));
  }
  changes.push(...view.graceOver());
  const output = createTurnOutput();
  for (const change of changes) {
    if (change.kind === "text") output.put(change.part, change.from, change.text);
    if (change.kind === "withdrawn") output.withdraw(change.part);
  }
  return { changes, parts: output.parts() };
}

type Change<K extends ViewChange["kind"]> = Extract<ViewChange, { kind: K }>;
function of<K extends ViewChange["kind"]>(changes: ViewChange[], kind: K): Array<Change<K>> {
  return changes.filter((each): each is Change<K> => each.kind === kind);
}

for (const version of VERSIONS) {
  const turns = `${version}-turns`;

  test.each<[string, string, string[]]>([
    ["plain", "completed", ["A plain answer."]],
    ["tool", "completed", ["I look. ", "It says hi."]],
    ["cut", "completed", ["The whole answer."]],
    ["overloaded", "completed", ["At last."]],
    ["early", "completed", ["Asked again."]],
    ["refused", "failed", []],
    ["unstated", "completed", ["Uncounted."]],
    ["pending", "aborted", []],
    ["question", "completed", ["As you say."]],
    ["delegate", "completed", ["Delegated."]],
  ])(`C1, ${version}: the recorded turn "%s" is %s, with this text once: %j`, (name, status, parts) => {
    const { changes, parts: found } = play(turns, name);
    expect(of(changes, "native_end")).toMatchObject([{ status }]);
    expect(found).toEqual(parts);
    // Its own acceptance comes first of all, and once.
    expect(changes[0]?.kind).toBe("own_event");
    expect(of(changes, "own_event")).toHaveLength(1);
  });

  test(`${version}: an interrupted answer is kept as far as it came, and is the tail`, () => {
    const { changes, parts } = play(turns, "endless");
    expect(parts.join("")).toMatch(/^(on and )+/);
    expect(of(changes, "native_end")).toMatchObject([
      { status: "aborted", error: null, tail: { role: "assistant" } },
    ]);
  });

  test(`D1, ${version}: a retry is told with its number and its wait, and the cut attempt is withdrawn`, () => {
    const { changes } = play(turns, "cut");
    expect(of(changes, "waiting")).toMatchObject([{ attempt: 1, isMain: true, delayMs: expect.any(Number) }]);
    expect(of(changes, "withdrawn")).toHaveLength(1);
    expect(of(play(turns, "overloaded").changes, "waiting")).toMatchObject([{ reason: "overloaded (529)" }]);
    expect(of(play(turns, "plain").changes, "waiting")).toEqual([]);
  });

  test(`${version}: a failed request names what failed, and leaves the user's message as the tail`, () => {
    const [end] = of(play(turns, "refused").changes, "native_end");
    expect(end).toMatchObject({
      error: { name: "api_error 400", message: expect.stringContaining("no such thing") },
      tail: { role: "user", id: turnOf(turns, "refused").own },
    });
  });

  test(`law 11, ${version}: usage is the turn's own, also where it was asked again without streaming`, () => {
    const stated = { inputTokens: 1000, outputTokens: 56, cacheReadTokens: 234 };
    expect(of(play(turns, "plain").changes, "native_end")[0]?.usage).toMatchObject(stated);
    const early = of(play(turns, "early").changes, "native_end")[0]?.usage;
    // The newer version streams again, and states what the cut attempt cost as well.
    if (version === "2.1.220") expect(early).toMatchObject(stated);
    else expect(early?.inputTokens).toBe(1100);
    const unstated = of(play(turns, "unstated").changes, "native_end")[0]?.usage;
    expect(unstated).toMatchObject({ source: "cli", inputTokens: null, outputTokens: null });
  });

  test(`${version}: a child's tools are its own, and what it says is no part of the answer`, () => {
    const { changes } = play(turns, "delegate");
    const tools = of(changes, "tool").map(({ tool, session, status }) => [tool, session === "root", status]);
    expect(tools).toEqual([
      ["Agent", true, "running"],
      ["Bash", false, "running"],
      ["Bash", false, "completed"],
      ["Agent", true, "completed"],
    ]);
  });

  test(`${version}: a rejected or interrupted tool has failed`, () => {
    expect(of(play(turns, "pending").changes, "tool").map(({ status }) => status)).toEqual([
      "running",
      "failed",
    ]);
  });

  test(`${version}: a result is no end while a subagent works on, nor when a turn over it begins; the shell holds nothing`, () => {
    const { changes, parts } = play(`${version}-background`, "behind");
    const kinds = changes.map(({ kind }) => kind).filter((kind) => kind.includes("end"));
    expect(kinds).toEqual(["end_expected", "end_not_expected", "end_expected", "native_end"]);
    expect(parts).toEqual(["Gone on.", "Noticed."]);
    const shell = play(`${version}-background`, "shell");
    expect(of(shell.changes, "native_end")).toMatchObject([{ status: "completed", shells: ["sleep 0.5"] }]);
    expect(shell.parts).toEqual(["Shell started."]);
  });
}

test("2.1.220: a command of the CLI's own is no answer, and leaves the earlier tail", () => {
  const { changes, parts } = play("2.1.220-turns", "/foo");
  expect(of(changes, "native_end")).toMatchObject([
    { status: "failed", error: { name: "NoModelCall" }, tail: { role: "assistant", id: "earlier" } },
  ]);
  expect(parts).toEqual([]);
});
