import { expect, test } from "vitest";
import { createFamily } from "../../../../bridge/drivers/codex/family.ts";

const call = (receiverThreadIds: string[], prompt: string | null = null) => ({
  type: "collabAgentToolCall",
  id: "c",
  receiverThreadIds,
  prompt,
});

test("a turn is ours when it names our turn as its root, on any thread but the main one", () => {
  const family = createFamily("root");
  expect(family.began({ thread: "a", turn: "a1" }, "ours", "ours")).toBe(true);
  expect(family.began({ thread: "b", turn: "b1" }, "another", "ours")).toBe(false);
  expect(family.began({ thread: "b", turn: "b1" }, null, "ours")).toBe(false);
  expect(family.began({ thread: "root", turn: "ours" }, "ours", "ours")).toBe(false);
  expect(family.holds("a", "a1")).toBe(true);
  expect(family.holds("a", "a0")).toBe(false);
  expect(family.holds("b", "b1")).toBe(false);
});

test("who is at work is known from beginnings and ends of turns", () => {
  const family = createFamily("root");
  family.began({ thread: "a", turn: "a1" }, "ours", "ours");
  family.began({ thread: "b", turn: "b1" }, "ours", "ours");
  expect(family.ended({ thread: "a", turn: "a0" })).toBe(false);
  expect(family.ended({ thread: "a", turn: "a1" })).toBe(true);
  expect(family.ended({ thread: "c", turn: "c1" })).toBe(false);
  expect(family.atWork()).toEqual([{ thread: "b", turn: "b1" }]);
  family.began({ thread: "a", turn: "a2" }, "ours", "ours");
  expect(family.atWork()).toHaveLength(2);
});

test("the ancestry goes up to the main thread, with what each was started for", () => {
  const family = createFamily("root");
  family.called("root", call(["a"], "Do this."));
  family.called("a", call(["b"], "Do that."));
  family.called("x", call(["a"], "Never."));
  family.called("root", call([]));
  expect(family.ancestry("b")).toEqual([
    { session: "b", title: "Do that." },
    { session: "a", title: "Do this." },
    { session: "root", title: "" },
  ]);
  expect(family.ancestry("root")).toEqual([{ session: "root", title: "" }]);
  expect(family.ancestry("unknown").map(({ session }) => session)).toEqual(["unknown", "root"]);
});

test("a subagent of the newest models has its place and its path from another item", () => {
  const family = createFamily("root");
  family.called("root", {
    type: "subAgentActivity",
    id: "c",
    kind: "started",
    agentThreadId: "a",
    agentPath: "/root/a",
  });
  expect(family.ancestry("a")).toEqual([
    { session: "a", title: "/root/a" },
    { session: "root", title: "" },
  ]);
});

test("a ring of parents ends, and the root is at its end", () => {
  const family = createFamily("root");
  family.called("a", call(["b"]));
  family.called("b", call(["a"]));
  const path = family.ancestry("a");
  expect(path).toHaveLength(32);
  expect(path.at(-1)?.session).toBe("root");
});

test("no more than a thousand subagents are followed", () => {
  const family = createFamily("root");
  for (let at = 0; at < 1000; at += 1) family.began({ thread: `t${at}`, turn: "x" }, "ours", "ours");
  expect(family.began({ thread: "one more", turn: "x" }, "ours", "ours")).toBe(false);
  expect(family.began({ thread: "t0", turn: "y" }, "ours", "ours")).toBe(true);
  expect(family.atWork()).toHaveLength(1000);
});
