/** Law 9 below the root: the requests of a Task child and of its own child, under each way a policy can go. */
import { expect, test } from "vitest";
import { type Followed, follow } from "../../support/turns.ts";
import { type DriverSubject, fileIn, NESTING_AGENT, required, type Stage } from "./subject.ts";

/** How a request is decided, and by whom. */
const WAYS = {
  allow: { by: "policy", reply: "once" },
  deny: { by: "policy", reply: "reject" },
  ask: { by: "user", reply: "once" },
  expired: { by: "deadline", reply: "reject" },
} as const;
type Way = keyof typeof WAYS;

export function lineageTests(stage: () => Stage, subject: DriverSubject): void {
  const { manifest, tools, server } = subject;
  const ofChild = test.skipIf(!manifest.asksPermission || tools.task === null);
  const ofGrandchild = test.skipIf(!manifest.asksPermission || tools.task === null || server === null);

  const waits = tools.taskEnd === null ? [] : [{ kind: "reply" as const, toolCalls: [tools.taskEnd()] }];

  /** The root delegates so many levels down, and the lowest session asks for its shell. */
  async function delegate(
    way: Way,
    levels: 1 | 2,
  ): Promise<{ turn: Followed; file: string; member: string }> {
    const { t, asked } = stage();
    const name = `${way} ${levels}`;
    const file = `${way}-${levels}.txt`;
    const task = required(tools.task);
    t.model.script(`Delegate ${name}`, [
      {
        kind: "reply",
        toolCalls: [
          levels === 1
            ? task(`The lowest of ${name} writes.`)
            : task(`The middle of ${name} delegates.`, { subagent_type: NESTING_AGENT }),
        ],
      },
      ...waits,
      "Delegated.",
    ]);
    t.model.script(`The middle of ${name}`, [
      { kind: "reply", text: "Middle text. ", toolCalls: [task(`The lowest of ${name} writes.`)] },
      ...waits,
      "The middle's end.",
    ]);
    t.model.script(`The lowest of ${name}`, [
      { kind: "reply", text: "Lowest text. ", toolCalls: [tools.shell(`printf x > ${file}`)] },
      "The lowest's end.",
    ]);
    const member = asked(way);
    return { turn: follow(t.host.submit(member, `Delegate ${name}.`)), file, member };
  }

  for (const levels of [1, 2] as const) {
    const whose = levels === 1 ? "Task child" : "Task child's own Task child";
    for (const way of Object.keys(WAYS) as Way[]) {
      const { by, reply } = WAYS[way];
      const run = levels === 1 ? ofChild : ofGrandchild;
      run(`law 9, E5, C7, P8: a ${whose} asks, and gets one ${reply} by ${by}`, async () => {
        const { t } = stage();
        const { turn, file, member } = await delegate(way, levels);
        const asked = await turn.heard("turn.permission_asked");
        const { session, request } = asked.request;
        if (way === "ask") {
          expect(t.host.openRequests(member)).toEqual([asked]);
          await t.host.answerPermission({ turn: turn.handle.id, session, request, reply: "once" });
        }
        const settlement = await turn.end();
        const root = settlement.session?.nativeId;
        expect(settlement.settled).toBe(true);
        expect(turn.all("turn.permission_asked")).toHaveLength(1);
        expect(turn.all("turn.permission_closed")).toEqual([
          expect.objectContaining({ session, request, reply, by, result: "confirmed" }),
        ]);
        const path = asked.ancestry.map((each) => each.session);
        expect(path).toHaveLength(levels + 1);
        expect(new Set(path).size).toBe(levels + 1);
        expect([path[0], path.at(-1)]).toEqual([session, root]);
        expect(fileIn(stage(), file)).toBe(reply === "once" ? "x" : null);
        // Nothing that a child said is the root's answer.
        expect(settlement).toMatchObject({ outcome: "completed", parts: ["Delegated."] });
        expect(turn.seen()).toBe("Delegated.");
        expect(t.host.openRequests(member)).toEqual([]);
      });
    }
  }
}
