import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hostSettlement } from "../../../controller/host-settlement.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { AT, DIGEST_A, EVENTS, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { CALL } from "../relay/calls.ts";

const UNKNOWN = hostSettlement({
  outcome: "unknown",
  code: "DELIVERY_UNKNOWN",
  reason: "the sandbox is gone",
  what: "sandbox_gone",
  at: AT,
});

/** `t-1` of `m-1` began a tool and is unknown; `t-2` of `m-2` has settled. The store is closed. */
function storeWithUnknown(): { directory: string; open: () => Store } {
  const directory = temporaryDirectory();
  const open = () => {
    const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1" });
    onTestFinished(() => store.close());
    return store;
  };
  const store = open();
  store.createSandbox({ id: "box", kind: "docker", directory: join(directory, "s", "box") });
  for (const id of ["m-1", "m-2"])
    store.createMember({ id, sandbox: "box", cli: "opencode", options: MEMBER });
  store.admit({ id: "t-1", member: "m-1", textSha256: DIGEST_A, textBytes: 12 });
  store.admit({ id: "t-2", member: "m-2", textSha256: DIGEST_A, textBytes: 12 });
  store.follow("box", { journalId: "j-1", epoch: 1, seq: 0, acked: 0 });
  const events = [
    EVENTS["turn.submitting"],
    { ...EVENTS["turn.tool"], title: "rm \u001b[2Jx\nnote forged" },
    EVENTS["turn.permission_asked"],
  ];
  store.apply(
    "box",
    events.map((event, at) => ({ seq: at + 1, at: AT, event })),
  );
  const { prefix: _, ...call } = { ...CALL, turn: "t-1", providerRequestId: "req-77" };
  store.calls.record(call, null);
  store.end("t-1", UNKNOWN);
  store.end("t-2", SETTLEMENT);
  store.close();
  return { directory, open };
}

function inspect(directory: string, ...args: string[]) {
  return cli(["turn", "inspect", ...args], { store: directory, env: { DOCKER_HOST: DEAD_ENGINE } });
}

test("it shows what is known, beside the controller that owns the store, and says how to go on", async () => {
  const { directory, open } = storeWithUnknown();
  open();
  const { code, stdout, stderr } = await inspect(directory, "t-1");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("turn t-1, number 1 of m-1: unknown\n");
  expect(stdout).toContain(`12 bytes, SHA-256 ${DIGEST_A}`);
  expect(stdout).toContain("reach    submitting: ");
  expect(stdout).toContain("host, sandbox_gone: the sandbox is gone");
  expect(stdout).toContain("its message msg_10");
  expect(stdout).toMatch(/ bash +ses_1 +call_1 +rm \[2Jx note forged\n/);
  expect(stdout).toContain("open     permission bash (ls *)");
  expect(stdout).toMatch(new RegExp(`${CALL.outcome} +${CALL.status} +${CALL.id} .*req-77`));
  expect(stdout).toContain('  holdfast turn inspect t-1 --note "what you found"\n');
  expect(stdout).not.toMatch(/^note/m);
});

test("with a note the member may go on, and the note is shown from then on", async () => {
  const { directory, open } = storeWithUnknown();
  const noted = await inspect(directory, "t-1", "--note", "x was removed");
  expect(noted.code).toBe(0);
  expect(noted.stdout).toMatch(/^note +\S+Z x was removed$/m);
  expect(noted.stdout).not.toContain("takes no turn");
  expect((await inspect(directory, "t-1", "--note", "x was removed")).code).toBe(0);
  const again = await inspect(directory, "t-1", "--note", "something else");
  expect(again.code).toBe(1);
  expect(again.stderr).toContain("[INSPECTION_NOT_NEEDED]");
  const store = open();
  expect(store.turn("t-1")).toMatchObject({ state: "unknown", settlement: UNKNOWN });
  expect(store.admit({ id: "t-3", member: "m-1", textSha256: DIGEST_A, textBytes: 1 }).turn.number).toBe(2);
});

test("with --json it is one value, the note included", async () => {
  const { directory } = storeWithUnknown();
  const { code, stdout } = await inspect(directory, "t-1", "--note", "seen", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    turn: { id: "t-1", state: "unknown" },
    needsNote: false,
    inspection: { note: "seen" },
    openTools: [{ call: "call_1" }],
    native: { message: "msg_10" },
  });
});

test("wrong ids and notes are refused with a code, and take nothing", async () => {
  const { directory, open } = storeWithUnknown();
  const cases: Array<[string[], string]> = [
    [["none"], "TURN_UNKNOWN"],
    [["none", "--note", "seen"], "TURN_UNKNOWN"],
    [["t-1", "--note", ""], "NOTE_INVALID"],
    [["t-1", "--note", "x".repeat(1025)], "NOTE_INVALID"],
    [["t-2", "--note", "seen"], "INSPECTION_NOT_NEEDED"],
  ];
  for (const [args, errorCode] of cases) {
    const { code, stderr } = await inspect(directory, ...args);
    expect({ args: args[0], code }).toEqual({ args: args[0], code: 1 });
    expect(stderr).toContain(`[${errorCode}]`);
  }
  expect((await inspect(directory)).code).toBe(2);
  open();
  expect((await inspect(directory, "t-1", "--note", "seen")).stderr).toContain("[STORE_OWNED]");
  expect((await inspect(directory, "t-2")).stdout).toContain("no note is needed");
});
