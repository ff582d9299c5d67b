/** A sandbox whose root file system can't be written: it works with its volumes, and says what is missing without them. */
import { expect, test } from "vitest";
import { createMember, startTestHost } from "../support/host.ts";
import { everySubject } from "../support/subjects.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { present, recreate } from "./engine.ts";
import { type Counts, tampering } from "./variants.ts";

for (const subject of everySubject()) {
  const { cli } = subject.manifest;
  test(`P41, P42: with a read-only root ${cli} works, keeps its conversation over a stop, and writes to its slot alone`, async () => {
    const t = await startTestHost({ readOnlyRoot: true });
    tellOnFailure(t);
    const sandbox = t.host.createSandbox({ kind: "docker" }).id;
    const member = t.host.createMember({ sandbox, cli, ...subject.member }).id;
    await play(t, member, "The code word is barnacle.");
    const probe = "touch /tmp/x /opt/x /var/lib/holdfast/x; touch ~/x $TMPDIR/x /workspace/x && echo written";
    t.model.script("Try it", [{ kind: "reply", toolCalls: [subject.tools.shell(probe)] }, "Tried."]);
    await play(t, member, "Try it.");
    const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
    const printed = rows.findLast(({ role }) => role === "tool")?.text ?? "";
    expect(printed.match(/Read-only file system|Permission denied/g)).toHaveLength(3);
    expect(printed).toContain("written");
    await t.host.stopSandbox(sandbox);
    const { settlement } = await play(t, member, "What is the code word?");
    expect(settlement).toMatchObject({ context: "RESTORED", parts: ["The code word is barnacle."] });
    const { HostConfig } = await present(t.host.store.sandbox(sandbox)?.container?.containerId ?? "");
    expect(HostConfig.ReadonlyRootfs).toBe(true);
  });
}

test("P42: a read-only root without volumes is a fault of the configuration that names every place, soon, once, and not LOST", async () => {
  const counts: Counts = { creates: 0, starts: 0 };
  const t = await startTestHost({
    around: (drivers) =>
      tampering(drivers, counts, (id) =>
        recreate(id, ({ HostConfig }) => ({ HostConfig: { ...HostConfig, ReadonlyRootfs: true } })),
      ),
  });
  tellOnFailure(t);
  const { member } = createMember(t.host, "docker");
  const startedMs = performance.now();
  const { settlement } = await play(t, member, "Hello?");
  expect(settlement).toMatchObject({
    outcome: "not_sent",
    settled: false,
    context: null,
    error: {
      code: "SANDBOX_UNFIT",
      message:
        "the sandbox can't write to /var/lib/holdfast (EROFS), /home/slots (EROFS), /workspace (EROFS)",
    },
  });
  expect(performance.now() - startedMs).toBeLessThan(10_000);
  expect(counts).toEqual({ creates: 1, starts: 1 });
  expect(t.model.requests()).toEqual([]);
});
