import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { AT, CONTAINER, DIGEST_A, EVENTS, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

/** `m-1` has a settled turn and an unknown one, `m-2` has none; the store is left open. */
function filled(): { directory: string; store: Store } {
  const directory = temporaryDirectory();
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1.2.3" });
  onTestFinished(() => store.close());
  store.createSandbox({ id: "box", kind: "docker", directory: join(directory, "s", "box") });
  for (const id of ["m-1", "m-2"])
    store.createMember({ id, sandbox: "box", cli: "opencode", options: MEMBER });
  store.bindContainer("box", { ...CONTAINER, sandboxId: "box" });
  store.follow("box", { journalId: "j-1", epoch: 1, seq: 0, acked: 0 });
  store.admit({ id: "t-1", member: "m-1", textSha256: DIGEST_A, textBytes: 12 });
  const end = { type: "turn.ended", turn: "t-1", member: "m-1", number: 1, settlement: SETTLEMENT } as const;
  store.apply("box", [{ seq: 1, at: AT, event: end }]);
  const alone = { ...EVENTS["member.unrequested"], detail: "status busy\nforged" };
  store.apply("box", [{ seq: 2, at: AT, event: alone }]);
  store.admit({ id: "t-2", member: "m-1", textSha256: DIGEST_A, textBytes: 12 });
  store.end("t-2", { ...SETTLEMENT, outcome: "unknown", settled: false, context: null });
  return { directory, store };
}

function run(directory: string, ...args: string[]) {
  const env = { DOCKER_HOST: DEAD_ENGINE, HOLDFAST_DIST: join(directory, "none") };
  return cli(["member", ...args], { store: directory, env });
}

test("members are listed with their last turn, and with what they wait for", async () => {
  const { directory } = filled();
  const { code, stdout, stderr } = await run(directory, "ls");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines[1]).toMatch(/^m-1 +box +opencode +1 +unknown +a note on turn t-2 is needed$/);
  expect(lines[2]).toMatch(/^m-2 +box +opencode +0 +-$/);
  const json = JSON.parse((await run(directory, "ls", "--json")).stdout) as unknown[];
  expect(json).toEqual([
    {
      id: "m-1",
      sandbox: "box",
      cli: "opencode",
      settledTurns: 1,
      lastTurn: "unknown",
      waitsForNote: "t-2",
      nativeId: "ses_1",
    },
    {
      id: "m-2",
      sandbox: "box",
      cli: "opencode",
      settledTurns: 0,
      lastTurn: null,
      waitsForNote: null,
      nativeId: null,
    },
  ]);
});

test("where nothing was made yet there is nothing to list or inspect", async () => {
  const directory = join(temporaryDirectory(), "none");
  expect(await run(directory, "ls")).toEqual({ code: 0, stdout: "no members\n", stderr: "" });
  const { code, stderr } = await run(directory, "inspect", "m-1");
  expect(code).toBe(1);
  expect(stderr).toContain("[MEMBER_UNKNOWN]");
});

test("a member is inspected as its owner, or beside one: next context, proof, what blocks it, locator, turns", async () => {
  const { directory, store } = filled();
  for (const isOwned of [true, false]) {
    if (!isOwned) store.close();
    const { code, stdout } = await run(directory, "inspect", "m-1");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^next +RESTORED: turn t-2 is unknown$/m);
    expect(stdout).toMatch(/^proof +if .*assistant msg_11.*else LOST/m);
    expect(stdout).toMatch(/^blocked .*\[INSPECTION_NEEDED\]$/m);
    expect(stdout).toMatch(/^settled +1 of 2 submissions$/m);
    expect(stdout).toMatch(/^locator +ses_1 in \/workspace$/m);
    expect(stdout).toMatch(/^2 +t-2 +unknown/m);
    expect(stdout).toMatch(/^\S+Z +started +ses_1 +status busy forged$/m);
  }
});

test("with --json it is one value, and a member without a turn is NEW", async () => {
  const { directory } = filled();
  const { stdout } = await run(directory, "inspect", "m-2", "--json");
  expect(JSON.parse(stdout)).toMatchObject({
    member: { id: "m-2", settled_turns: 0 },
    history: [],
    turns: [],
    next: { status: "NEW", blocked: null },
  });
});
