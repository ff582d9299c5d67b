/** How turns of Pi 1.6.0 go: its retries, its compactions, noise on its pipe, texts that it could take for its own. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { follow, play } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { PI_COMMAND, PI_SUBJECT } from "./suite/pi-subject.ts";
import { processesOf, remoteAddresses } from "./suite/processes.ts";
import { abortOf, openStage, type Stage, settled, spoken } from "./suite/subject.ts";

const extension = (name: string) => fileURLToPath(new URL(`../stand-ins/pi/${name}.ts`, import.meta.url));

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** A member with settings of its user's own, as pi reads them. */
function withSettings(own: Stage, settings: unknown, options: Parameters<Stage["fresh"]>[0] = {}): string {
  const member = own.fresh(options);
  put(`${own.directory}/slots/${member}/home/.pi/agent/settings.json`, JSON.stringify(settings));
  return member;
}

const said = (own: Stage) =>
  (own.t.model.mainRequests().at(-1)?.request?.rows ?? [])
    .filter(({ role }) => role === "assistant")
    .map(({ text }) => text);

describe("as it is", () => {
  const stage = openStage(PI_SUBJECT);

  test("C3: a provider that fails for good is tried as often as pi means to, each wait told; a failed turn, and no empty success", async () => {
    const own = stage();
    const { t } = own;
    const member = await settled(own, withSettings(own, { retry: { baseDelayMs: 20 } }));
    t.model.script("Fail for good", [
      { kind: "status", status: 529, body: { error: { message: "529 Overloaded" } } },
    ]);
    const turn = await play(t, member, "Fail for good.");
    expect(turn.settlement).toMatchObject({
      outcome: "failed",
      settled: true,
      parts: [],
      error: { code: "NATIVE_FAILED", message: expect.stringContaining("Overloaded") },
      keepsProcess: true,
    });
    expect(turn.all("turn.waiting").map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(t.model.mainRequests()).toHaveLength(4);
    t.model.reset();
    const next = await play(t, member, "Are you well?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE" });
    // What failed is not sent later.
    expect(said(own)).toEqual([expect.stringContaining("All right")]);
    expect(spoken(own, t.model.mainRequests()[0]).slice(-2)).toEqual(["Fail for good.", "Are you well?"]);
  });

  test("C3, law 10: text of an attempt that fails in the middle of a tool turn is withdrawn, what was before it stays", async () => {
    const own = stage();
    const { t } = own;
    const member = await settled(own, withSettings(own, { retry: { baseDelayMs: 300 } }));
    t.model.script("Work and break", [
      { kind: "reply", text: "First. ", toolCalls: [PI_SUBJECT.tools.shell("true")] },
      {
        kind: "reply",
        text: "Second, whole.",
        failFirst: { times: 1, step: { kind: "cut", text: "Half of the sec" } },
      },
    ]);
    const turn = follow(t.host.submit(member, "Work and break."));
    await turn.heard("turn.waiting");
    await until("the withdrawal", () => turn.seen() === "First. ");
    expect(await turn.end()).toMatchObject({ outcome: "completed", parts: ["First. ", "Second, whole."] });
    expect(turn.seen()).toBe("First. Second, whole.");
    t.model.reset();
    await play(t, member, "And?");
    expect(said(own).join("|")).not.toContain("Half");
  });

  test("C3: a compaction at the threshold comes before the end; the next prompt is taken, and the history is found again", async () => {
    const own = stage().apart();
    const { t, sandbox } = own;
    const model = { ...PI_SUBJECT.member.model, contextTokens: 60_000 };
    const member = await settled(own, own.fresh({ model }));
    await play(t, member, `Something long. ${"Word after word. ".repeat(6000)}`);
    t.model.script("Fill it", [
      { kind: "reply", text: "Full.", usage: { inputTokens: 58_000, outputTokens: 10 } },
    ]);
    t.model.script("<conversation>", ["SUMMARY of it."], { purpose: "summary" });
    const { settlement } = await play(t, member, "Fill it.");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true, parts: ["Full."] });
    expect(t.model.requests().filter(({ purpose }) => purpose === "summary")).toHaveLength(1);
    // The summary's tokens are the turn's.
    expect(settlement.usage.inputTokens).toBeGreaterThan(58_000);
    t.model.reset();
    expect((await play(t, member, "Go on.")).settlement).toMatchObject({
      outcome: "completed",
      context: "LIVE",
    });
    expect(t.model.mainRequests()[0]?.bodyText).toContain("SUMMARY of it.");
    await t.host.stopSandbox(sandbox);
    const next = await play(t, member, "Still there?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "RESTORED" });
  });

  test("law 1: no command, skill or template of the workspace or of the user takes a text for itself", async () => {
    const own = stage().apart();
    const { t, workspace, directory } = own;
    const member = own.fresh();
    const skill = "---\nname: greet\ndescription: Greets.\n---\nGREETING\n";
    for (const root of [`${workspace}/.pi`, `${directory}/slots/${member}/home/.pi/agent`]) {
      put(`${root}/prompts/hello.md`, "EXPANDED $1\n");
      put(`${root}/skills/greet/SKILL.md`, skill);
      put(
        `${root}/extensions/taker.ts`,
        "export default (pi) => { pi.registerCommand('take', { handler: async () => undefined }); pi.on('input', () => ({ action: 'handled' })); };\n",
      );
    }
    for (const text of ["/hello world", "/skill:greet me", "/take this", "/mcp", "/hello"]) {
      t.model.reset();
      const { settlement } = await play(t, member, text);
      expect(settlement, text).toMatchObject({ outcome: "completed", parts: ["All right."] });
      expect(spoken(own, t.model.mainRequests()[0]).at(-1)).toBe(text);
      expect(t.model.mainRequests()[0]?.bodyText).not.toMatch(/EXPANDED|GREETING/);
    }
  });

  test("framing: line and paragraph separators are text, in both directions", async () => {
    const { t, steady } = stage();
    const text = "one\u2028two\u2029three\u0085four\u000bfive";
    t.model.script("one\u2028two", [{ kind: "reply", text: ["six\u2028", "seven\u2029eight\u0085nine"] }]);
    const { settlement } = await play(t, steady(), text);
    expect(settlement).toMatchObject({
      outcome: "completed",
      parts: ["six\u2028seven\u2029eight\u0085nine"],
    });
    expect(spoken(stage(), t.model.mainRequests()[0]).at(-1)).toBe(text);
  });

  test("P43: instructions of 200 KB and a prompt of 200 KB go their way beside every argument and variable", async () => {
    const own = stage().apart();
    const { t, workspace } = own;
    put(`${workspace}/AGENTS.md`, `${"Be kind to everybody. ".repeat(9500)} END-OF-INSTRUCTIONS`);
    const text = `${"0123456789abcdef".repeat(12_800)} end`;
    const { settlement } = await play(t, own.fresh(), text);
    expect(settlement).toMatchObject({ outcome: "completed", settled: true });
    const [request] = t.model.mainRequests();
    expect(spoken(own, request).at(-1) === text).toBe(true);
    expect(request?.bodyText).toContain("END-OF-INSTRUCTIONS");
  });

  test("nothing phones home: while it starts, works and waits, pi speaks to the loopback alone", async () => {
    const own = stage();
    const { t, sandbox } = own;
    const member = own.fresh();
    const seen = new Set<string>();
    let isOver = false;
    const watching = (async () => {
      while (!isOver) {
        for (const { pid } of await processesOf(sandbox, member, ""))
          for (const address of remoteAddresses(pid)) seen.add(address);
      }
    })();
    t.model.script("Take your time", [
      { kind: "reply", text: ["Slow ", "and ", "sure."], betweenChunksMs: 300 },
    ]);
    expect((await play(t, member, "Take your time.")).settlement.outcome).toBe("completed");
    isOver = true;
    await watching;
    expect([...seen]).toEqual(["127.0.0.1"]);
  });
});

describe("with other extensions", () => {
  const stage = openStage(PI_SUBJECT, {
    commands: { pi: [...PI_COMMAND, "-e", extension("strange-extension")] },
  });

  test("P28: noise that is glued to the end of each turn is skipped, and the end is found; a dialog at the start holds nothing up", async () => {
    const { t, steady } = stage();
    for (const text of ["First.", "Second."]) {
      const { settlement } = await play(t, steady(), text);
      expect(settlement).toMatchObject({ outcome: "completed", settled: true, keepsProcess: true });
    }
  });

  test("law 6: an abort over a dialog that does not end with the turn is not held up by it", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Use and be", [
      { kind: "reply", toolCalls: [{ name: "ask_editor", arguments: {} }] },
      "Never.",
    ]);
    const turn = follow(t.host.submit(member, "Use and be aborted."));
    await turn.heard("turn.question_asked");
    expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
    t.model.reset();
    const next = await play(t, member, "And now?");
    expect(next.settlement).toMatchObject({ outcome: "completed", context: "LIVE", parts: ["All right."] });
  });

  test("law 14: nothing that pi translates is kept where another slot's user could put its own in its place", async () => {
    const { t, steady } = stage();
    expect((await play(t, steady(), "Are you loaded?")).settlement.outcome).toBe("completed");
    const shared = `${tmpdir()}/jiti`;
    const kept = existsSync(shared) ? readdirSync(shared) : [];
    expect(kept.filter((name) => name.includes("extension"))).toEqual([]);
  });

  test("P28: the end of an aborted turn is found behind noise too", async () => {
    const { t, steady } = stage();
    const member = await settled(stage(), steady());
    t.model.script("Never end", [{ kind: "neverEnd", text: "on and " }]);
    const turn = follow(t.host.submit(member, "Never end."));
    await until("some text", () => turn.seen().length > 20, 30_000);
    expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true, keepsProcess: true });
  });
});

describe("with an extension that waits for its user at the start", () => {
  const stage = openStage(PI_SUBJECT, {
    commands: { pi: [...PI_COMMAND, "-e", extension("waiting-extension")] },
  });

  test("pi reads no answer by then and ends: the turn is not sent, in bounded time, and says so", async () => {
    const { t, fresh } = stage();
    const { settlement } = await play(t, fresh(), "Hello?");
    expect(settlement).toMatchObject({
      outcome: "refused",
      settled: false,
      error: { code: "CLI_NOT_READY", message: expect.stringContaining("before it was ready (code 0") },
    });
    expect(t.model.requests()).toEqual([]);
  });
});
