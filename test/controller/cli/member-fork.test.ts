import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../controller/store/open-store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { AT, CONTAINER, LOCATOR, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

/** `m-1` has a conversation and a fork, `m-2`, under the key `k`; `m-3` has none. The store is closed. */
function filled(): string {
  const directory = temporaryDirectory();
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  store.createSandbox({ id: "box", kind: "docker", directory: join(directory, "s", "box") });
  store.bindContainer("box", { ...CONTAINER, sandboxId: "box" });
  for (const id of ["m-1", "m-3"])
    store.createMember({ id, sandbox: "box", cli: "opencode", options: MEMBER });
  store.follow("box", { journalId: "j-1", epoch: 1, seq: 0, acked: 0 });
  store.admit({ id: "t-1", member: "m-1", textSha256: "ab", textBytes: 2 });
  const end = { type: "turn.ended", turn: "t-1", member: "m-1", number: 1, settlement: SETTLEMENT } as const;
  store.apply("box", [{ seq: 1, at: AT, event: end }]);
  store.changeForks("m-1", (forks) => {
    forks.prepare({ key: "k", parent: "m-1", id: "m-2" }, () => "");
    forks.materialized("m-2", { nativeId: "ses_fork", directory: "/workspace", tail: LOCATOR.tail });
  });
  store.close();
  return directory;
}

function fork(store: string, ...args: string[]) {
  return cli(["member", "fork", ...args], { store, env: { DOCKER_HOST: DEAD_ENGINE } });
}

test("it says which member was made, of what, and under which key", async () => {
  const store = filled();
  const { code, stdout } = await fork(store, "m-1", "--key", "k");
  expect(code).toBe(0);
  expect(stdout).toBe(
    [
      "member m-2, a fork of m-1: ready",
      "key      k",
      "begins   behind 1 settled turns of ses_1",
      "session  ses_fork in /workspace",
      "",
    ].join("\n"),
  );
  const json = await fork(store, "m-1", "--key", "k", "--json");
  expect(JSON.parse(json.stdout)).toMatchObject({ member: "m-2", state: "ready", parent: "m-1" });
});

test("what can't be forked is refused with its code, and the key is told for another try", async () => {
  const store = filled();
  const empty = await fork(store, "m-3");
  expect(empty.code).toBe(1);
  expect(empty.stderr).toContain("[FORK_EMPTY]");
  expect(empty.stderr).toMatch(/^the fork's key is fork-[0-9a-f]{8}$/m);
  expect((await fork(store, "m-9", "--key", "x")).stderr).toContain("[MEMBER_UNKNOWN]");
  expect((await fork(store, "m-3", "--key", "k")).stderr).toContain("[FORK_KEY_USED]");
  expect((await fork(store)).code).toBe(2);
});
