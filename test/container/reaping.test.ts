/** What a slot's processes may do to escape, and what becomes of them: reaped under any init, or named. */
import { expect, test } from "vitest";
import { createMember, startTestHost, type TestHost } from "../support/host.ts";
import { everySubject } from "../support/subjects.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { present, processesIn, processIn, procFile, recreate } from "./engine.ts";
import { tampering } from "./variants.ts";

/** A session of its own, a double fork, a daemon with another environment and folder, one that ignores what it can. */
const SESSION = `perl -MPOSIX -e 'fork and exit; POSIX::setsid(); exec @ARGV'`;
const ESCAPES = [
  `${SESSION} sleep 611 >/dev/null 2>&1 </dev/null`,
  `${SESSION} sh -c '( sleep 612 & ) &' >/dev/null 2>&1 </dev/null`,
  `env -i ${SESSION} sh -c 'cd /; exec sleep 613' >/dev/null 2>&1 </dev/null`,
  `${SESSION} sh -c 'trap "" TERM HUP INT; sleep 614; sleep 615' >/dev/null 2>&1 </dev/null`,
  "sleep 0.3",
].join("\n");
/** Short-lived orphans: each is a zombie for as long as nobody waits for it. */
const ORPHANS = "for i in $(seq 200); do ( ( exec true ) & ); done; sleep 0.2";

const [SUBJECT] = everySubject();

async function containerOf(t: TestHost, sandbox: string): Promise<string> {
  return (await present(t.host.store.sandbox(sandbox)?.container?.containerId ?? "")).Id;
}

for (const init of ["our own init", "the engine's init above ours"]) {
  test(`P31, design 4: whatever left its session or its parent is reaped with its slot, under ${init}; no zombie stays`, async () => {
    const t = await startTestHost({
      around: (drivers) =>
        tampering(drivers, { creates: 0, starts: 0 }, async (id) =>
          init === "our own init"
            ? undefined
            : recreate(id, ({ HostConfig }) => ({ HostConfig: { ...HostConfig, Init: true } })),
        ),
    });
    tellOnFailure(t);
    const { sandbox, member } = createMember(t.host, "docker");
    const call = SUBJECT?.tools.shell(`${ESCAPES}\n${ORPHANS}`) ?? [];
    t.model.script("Leave some behind", [{ kind: "reply", toolCalls: [call].flat() }, "Left."]);
    expect((await play(t, member, "Leave some behind.")).settlement).toMatchObject({ outcome: "completed" });
    const container = await containerOf(t, sandbox);
    const left = async () =>
      (await processesIn(container)).filter(({ command }) => /sleep 61[1-5]/.test(command));
    expect((await left()).length).toBeGreaterThanOrEqual(4);
    await until("no zombie", async () => (await zombiesIn(container)) === 0, 5000);

    // Its CLI dies; what it has left is nobody's child, and must not be there beside the next one.
    const cli = await processIn(container, (command) => command.includes(SUBJECT?.processText ?? "-"));
    process.kill(cli.pid, "SIGKILL");
    await until(
      "an empty slot",
      async () => (await processesIn(container)).every(({ uid }) => uid === 0),
      15_000,
    );
    expect(await zombiesIn(container)).toBe(0);
    expect((await play(t, member, "Go on.")).settlement).toMatchObject({
      outcome: "completed",
      context: "RESTORED",
    });
    expect(await left()).toEqual([]);
  });
}

test("design 4: a slot that can't be emptied takes no further process, and says which one is in the way", async () => {
  const t = await startTestHost({
    around: (drivers) =>
      tampering(drivers, { creates: 0, starts: 0 }, (id) =>
        // Without KILL even the bridge's root can't end another user's process.
        recreate(id, ({ HostConfig }) => ({
          HostConfig: { ...HostConfig, CapAdd: ["SETUID", "SETGID", "CHOWN"] },
        })),
      ),
  });
  tellOnFailure(t);
  const { sandbox, member } = createMember(t.host, "docker");
  const call = SUBJECT?.tools.shell(ESCAPES) ?? [];
  t.model.script("Leave some behind", [{ kind: "reply", toolCalls: [call].flat() }, "Left."]);
  await play(t, member, "Leave some behind.");
  const { locator } = t.host.member(member);
  const container = await containerOf(t, sandbox);
  const cli = await processIn(container, (command) => command.includes(SUBJECT?.processText ?? "-"));
  process.kill(cli.pid, "SIGKILL");
  await until("its end", async () => (await processesIn(container)).every(({ pid }) => pid !== cli.pid));
  t.model.reset();
  const { settlement } = await play(t, member, "Go on.");
  expect(settlement).toMatchObject({
    outcome: "refused",
    settled: false,
    error: {
      code: "PROCESS_LEFT",
      message: expect.stringMatching(/^\d+ processes of the slot .*: .*\d+ \(sleep\)/),
    },
  });
  expect(t.model.requests()).toEqual([]);
  expect(t.host.member(member).locator).toEqual(locator);
});

/** Zombies are no process any more for the engine's list: the kernel's own is asked. */
async function zombiesIn(container: string): Promise<number> {
  return (await processesIn(container)).filter(({ pid }) => /^State:\s+Z/m.test(statusOf(pid))).length;
}

function statusOf(pid: number): string {
  try {
    return procFile(pid, "status");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}
