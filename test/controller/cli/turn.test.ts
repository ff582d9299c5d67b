import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hostSettlement } from "../../../controller/host-settlement.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import { OUTCOMES, type Settlement } from "../../../protocol/settlement.ts";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { MEMBER } from "../../support/host.ts";
import { AT, DIGEST_A, EVIDENCE, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

/** A store with a turn for each settlement; null: it still runs. */
function storeWith(settlements: ReadonlyArray<Settlement | null>): string {
  const directory = temporaryDirectory();
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1" });
  onTestFinished(() => store.close());
  settlements.forEach((settlement, at) => {
    const sandbox = `sb-${at}`;
    store.createSandbox({ id: sandbox, kind: "docker", directory: join(directory, "s", sandbox) });
    store.createMember({ id: `m-${at}`, sandbox, cli: "opencode", options: MEMBER });
    store.admit({ id: `t-${at}`, member: `m-${at}`, textSha256: DIGEST_A, textBytes: 12 });
    if (settlement !== null) store.end(`t-${at}`, settlement);
  });
  return directory;
}

function show(turn: string, store: string, ...more: string[]) {
  return cli(["turn", "show", turn, ...more], { store, env: { DOCKER_HOST: DEAD_ENGINE } });
}

test("every outcome is shown, with its evidence, beside the controller that owns the store", async () => {
  const store = storeWith(
    OUTCOMES.map((outcome) => ({ ...SETTLEMENT, outcome, settled: outcome === "completed" })),
  );
  await Promise.all(
    OUTCOMES.map(async (outcome, at) => {
      const { code, stdout, stderr } = await show(`t-${at}`, store);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(stdout).toContain(
        `outcome ${outcome}, ${outcome === "completed" ? "settled natively" : "not settled"}\n`,
      );
      expect(stdout).toContain(`turn t-${at}, number 1 of m-${at}`);
      expect(stdout).toContain("12 bytes, SHA-256 aaaaaaaaaaaaaaaa…");
      expect(stdout).toContain("native id ses_1, last message msg_11");
      expect(stdout).toMatch(/stream +session\.idle +1\/2\/17 +root session/);
    }),
  );
});

test("a turn without an end is shown as one that runs", async () => {
  const { code, stdout } = await show("t-0", storeWith([null]));
  expect(code).toBe(0);
  expect(stdout).toMatch(/^turn t-0, number 1 of m-0: \w+\n/);
  expect(stdout).not.toContain("outcome");
});

test("an error, a lost context and a missing session are said", async () => {
  const lost = hostSettlement({
    outcome: "refused",
    code: "CONTEXT_LOST",
    reason: "the container is gone",
    what: "not_submitted",
    at: AT,
    context: "LOST",
  });
  const { stdout } = await show("t-0", storeWith([lost]));
  expect(stdout).toContain("context LOST (the container is gone)\n");
  expect(stdout).toContain("error CONTEXT_LOST: the container is gone\n");
  expect(stdout).not.toContain("native id");
});

test("with --json it is one value in one line, as it was recorded", async () => {
  const { code, stdout, stderr } = await show("t-0", storeWith([SETTLEMENT]), "--json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.trimEnd()).not.toContain("\n");
  expect(JSON.parse(stdout)).toMatchObject({ turn: { id: "t-0", settlement: SETTLEMENT }, events: [] });
});

test("texts of a sandbox forge no line and send no escape", async () => {
  const hostile = "\u001b[2J\u009b1m\nturn t-9: forged\u0007";
  const settlement: Settlement = {
    ...SETTLEMENT,
    contextReason: hostile,
    evidence: [{ ...EVIDENCE, what: `what${hostile}`, detail: hostile }],
    error: { code: "NATIVE_FAILED", message: hostile, details: {} },
  };
  const store = storeWith([settlement]);
  const plain = await show("t-0", store);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(plain.stdout).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  expect(plain.stdout).not.toMatch(/^turn t-9/m);
  const json = await show("t-0", store, "--json");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(json.stdout).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  expect(JSON.parse(json.stdout)).toMatchObject({ turn: { settlement: { contextReason: hostile } } });
});
