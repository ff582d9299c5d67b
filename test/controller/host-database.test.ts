// A host whose store is in a database on another machine: no store, no prompt, and nothing lost when it comes back.
import { expect, onTestFinished, test } from "vitest";
import { dialAgain, startFakeHost } from "../support/fake-host.ts";
import { startPostgres } from "../support/postgres.ts";
import { SETTLEMENT } from "../support/samples.ts";
import { until } from "../support/until.ts";

test("no store, no prompt: while the server is gone nothing is sent; what bridges say meanwhile is kept behind it", async () => {
  const server = await startPostgres();
  onTestFinished(() => server.remove());
  const fake = await startFakeHost({ storeUrl: server.url() });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const bridge = fake.bridge();
  const first = fake.host.submit(member, "hello", { id: "t-1" });
  await bridge.untilAsked("turn.submit");

  await server.kill();
  const failed = expect.objectContaining({ code: "STORE_ERROR" });
  expect(() => fake.host.submit(fake.member("other"), "hello", { id: "t-2" })).toThrow(failed);
  expect(() => fake.host.submit(member, "hello", { id: "t-3" })).toThrow(failed);
  bridge.emit({ type: "turn.ended", turn: "t-1", member, number: 1, settlement: SETTLEMENT });
  expect(bridge.submissions()).toHaveLength(1);

  await server.start();
  await until("the store", () => {
    try {
      return fake.host.store.turn("t-1");
    } catch {
      return null;
    }
  });
  await dialAgain(fake);
  expect((await first.settlement).outcome).toBe("completed");
  expect(await server.look("SELECT id, state FROM turns")).toEqual([{ id: "t-1", state: "settled" }]);
  fake.host.submit(member, "again", { id: "t-3" });
  await until("the second submission", () => bridge.submissions().length === 2);
});
