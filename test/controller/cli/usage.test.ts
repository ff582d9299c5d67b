import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { UNKNOWN_USAGE } from "../../../controller/relay/call-usage.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { AT, DIGEST_A, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { CALL, chatBody, digestOf } from "../relay/calls.ts";

/** Two turns of `m-1`: one that both witnesses know, one with a call that is unknown; the store is left open. */
function filled(): string {
  const directory = temporaryDirectory();
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1.2.3" });
  onTestFinished(() => store.close());
  store.createSandbox({ id: "box", kind: "docker", directory: join(directory, "s", "box") });
  for (const id of ["m-1", "m-2"])
    store.createMember({ id, sandbox: "box", cli: "opencode", options: MEMBER });
  const own = {
    inputTokens: 25,
    outputTokens: 15,
    reasoningTokens: 5,
    cacheReadTokens: 60,
    cacheWriteTokens: 10,
  };
  for (const [at, id] of ["t-1", "t-2"].entries()) {
    store.admit({ id, member: "m-1", textSha256: DIGEST_A, textBytes: 12 });
    store.end(id, { ...SETTLEMENT, usage: { source: "cli", ...own } });
    const digest = digestOf(chatBody(["a", "b", "c"].slice(0, 1 + 2 * at)));
    store.calls.record({ ...CALL, id: `call-${id}`, turn: id }, digest);
  }
  const cut = {
    outcome: "cut",
    status: 200,
    usage: UNKNOWN_USAGE,
    answerId: null,
    model: "m1\u001b[31m",
  } as const;
  store.calls.record({ ...CALL, id: "call-cut", turn: "t-2", ...cut }, null);
  store.calls.record({ ...CALL, id: "call-alone", turn: null }, null);
  return directory;
}

function usage(directory: string, ...args: string[]) {
  return cli(["usage", ...args], { store: directory, env: { DOCKER_HOST: DEAD_ENGINE } });
}

test("a turn's usage is shown by both witnesses with the difference, and its calls one by one", async () => {
  const { code, stdout, stderr } = await usage(filled(), "--turn", "t-1");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^turn t-1$/m);
  expect(stdout).toMatch(/^calls {2}1: 1 of 1 calls known$/m);
  expect(stdout).toMatch(/^input +30 +30 in 1 of 1 calls +25 +\+5$/m);
  expect(stdout).toMatch(/^cache read +60 +60 in 1 of 1 calls +60 +0$/m);
  expect(stdout).toMatch(/^all input +100 +100 in 1 of 1 calls +- +-$/m);
  expect(stdout).toMatch(/m1 +200 +completed +30 +60 +15 +- +chatcmpl-1 +call-t-1$/m);
});

test("an unknown call makes the sum unknown, and how much is known stands beside it", async () => {
  const { stdout } = await usage(filled(), "--turn", "t-2");
  expect(stdout).toMatch(/^calls {2}2: 1 of 2 calls known$/m);
  expect(stdout).toMatch(/^prefix 1 equal$/m);
  expect(stdout).toMatch(/^input +unknown +30 in 1 of 2 calls +25 +unknown$/m);
  expect(stdout).toMatch(/cut +unknown +unknown +unknown +- +- +call-cut$/m);
  expect(stdout).not.toContain("\u001b");
});

test("members are made of turns, sandboxes of members, and calls with no turn are told", async () => {
  const directory = filled();
  const member = await usage(directory, "--member", "m-1");
  expect(member.stdout).toMatch(/^calls {2}4: 3 of 4 calls known; 1 with no turn of ours$/m);
  expect(member.stdout).toMatch(/^turns {2}2 ended: 2 of 2 known by the CLI$/m);
  expect(member.stdout).toMatch(/^t-1 +1 of 1 +30 +60 +15 +25 +15 +\+5 \/ 0$/m);
  expect(member.stdout).toMatch(/^t-2 +1 of 2 +unknown +unknown +unknown +25 +15 +unknown \/ unknown$/m);
  const sandbox = await usage(directory, "--sandbox", "box");
  expect(sandbox.stdout).toMatch(/^m-1 +3 of 4 +unknown/m);
  expect(sandbox.stdout).toMatch(/^m-2 +0 of 0 +0 +0 +0 +unknown +unknown +unknown \/ unknown$/m);
  const all = await usage(directory);
  expect(all.stdout).toMatch(/^box +3 of 4 +unknown/m);
});

test("S14: a budget is shown with what is spent, reserved and left of it", async () => {
  const directory = filled();
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1.2.3", takeOver: true });
  onTestFinished(() => store.close());
  store.calls.budgets.set("m-1", 20_000);
  store.calls.budgets.reserve("call-held", "m-1", 100);
  const line = "budget 20000 tokens of the member: 0 spent, 16484 reserved, 3516 remaining";
  expect((await usage(directory, "--member", "m-1")).stdout.split("\n")).toContain(line);
  expect((await usage(directory, "--member", "m-2")).stdout).not.toContain("budget");
});

test("for machines it is one value, with null for what is unknown", async () => {
  const directory = filled();
  const json = async (...args: string[]) =>
    JSON.parse((await usage(directory, ...args, "--json")).stdout) as unknown;
  expect(await json("--turn", "t-2")).toMatchObject({
    of: { turn: "t-2" },
    report: {
      calls: {
        calls: 2,
        dueCalls: 2,
        knownCalls: 1,
        counters: { inputTokens: { tokens: null, knownTokens: 30 } },
      },
      cli: { turns: 1, usage: { inputTokens: 25 } },
      difference: { inputTokens: null },
    },
    calls: [
      { id: "call-cut", outcome: "cut" },
      { id: "call-t-2", prefix: { verdict: "equal" } },
    ],
  });
  expect(await json()).toMatchObject({ of: null, parts: [{ id: "box", report: { calls: { calls: 4 } } }] });
});

test("what is not there, and two questions at once, are errors", async () => {
  const directory = filled();
  for (const [args, code] of [
    [["--turn", "none"], "TURN_UNKNOWN"],
    [["--member", "none"], "MEMBER_UNKNOWN"],
    [["--sandbox", "none"], "SANDBOX_UNKNOWN"],
    [["--turn", "t-1", "--member", "m-1"], "USAGE"],
  ] as const) {
    const end = await usage(directory, ...args);
    expect(end.code).toBe(code === "USAGE" ? 2 : 1);
    expect(end.stderr).toContain(`[${code}]`);
  }
  const nowhere = join(temporaryDirectory(), "none");
  expect(await usage(nowhere)).toEqual({ code: 0, stdout: "no sandboxes\n", stderr: "" });
  for (const name of ["turn", "member", "sandbox"])
    expect((await usage(nowhere, `--${name}`, "x")).stderr).toContain(`[${name.toUpperCase()}_UNKNOWN]`);
});
