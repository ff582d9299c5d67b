import { expect, test } from "vitest";
import { createAgents } from "../../../../bridge/drivers/claude/agents.ts";

test("law 9: an agent's ancestry goes up to the root, each under the title that it was started with", () => {
  const agents = createAgents("root");
  agents.called("toolu_1", null);
  agents.started("middle", "toolu_1", "The middle");
  agents.called("toolu_2", "toolu_1");
  agents.started("lowest", "toolu_2", "The lowest");
  expect(agents.ancestry("lowest")).toEqual([
    { session: "lowest", title: "The lowest" },
    { session: "middle", title: "The middle" },
    { session: "root", title: "" },
  ]);
  expect(agents.ancestry("root")).toEqual([{ session: "root", title: "" }]);
});

test("events are their agent's by the call that it works for; the root's have none", () => {
  const agents = createAgents("root");
  agents.started("child", "toolu_1", "t");
  expect(agents.sessionOf(null)).toBe("root");
  expect(agents.sessionOf("toolu_1")).toBe("child");
  expect(agents.sessionOf("toolu_9")).toBe("toolu_9");
});

test("an agent that was not told of is the root's child, and a circle ends", () => {
  const agents = createAgents("root");
  expect(agents.ancestry("stranger").map(({ session }) => session)).toEqual(["stranger", "root"]);
  agents.called("toolu_1", "toolu_1");
  agents.started("self", "toolu_1", "t".repeat(500));
  const path = agents.ancestry("self");
  expect(path).toHaveLength(32);
  expect(path.at(-1)).toEqual({ session: "root", title: "" });
  expect(path[0]?.title.length).toBeLessThanOrEqual(200);
});
