import { expect, test } from "vitest";
import type { Item } from "../../../../bridge/drivers/codex/native-message.ts";
import { endOf, toolOf } from "../../../../bridge/drivers/codex/tool-items.ts";

const item = (type: string, more: Partial<Item> = {}): Item => ({ type, id: "i", ...more });

test.each<[Item, { tool: string; title: string } | null]>([
  [
    item("commandExecution", { command: "/bin/bash -lc 'git push'" }),
    { tool: "exec_command", title: "git push" },
  ],
  [item("commandExecution"), { tool: "exec_command", title: "" }],
  [
    item("fileChange", { changes: [{ path: "/w/a" }, { path: "/w/b" }] }),
    { tool: "apply_patch", title: "/w/a, /w/b" },
  ],
  [item("mcpToolCall", { server: "files", tool: "read" }), { tool: "files.read", title: "" }],
  [item("dynamicToolCall", { namespace: "n", tool: "t" }), { tool: "n.t", title: "" }],
  [item("dynamicToolCall", { tool: "t" }), { tool: "t", title: "" }],
  [
    item("collabAgentToolCall", { tool: "spawnAgent", prompt: "Work." }),
    { tool: "multi_agent_v1.spawn_agent", title: "Work." },
  ],
  [item("collabAgentToolCall", { tool: "new" }), { tool: "multi_agent_v1.?", title: "" }],
  [
    item("subAgentActivity", { kind: "started", agentPath: "/root/a" }),
    { tool: "collaboration.spawn_agent", title: "/root/a" },
  ],
  [item("subAgentActivity", { kind: "interrupted" }), { tool: "collaboration.interrupt_agent", title: "" }],
  [item("subAgentActivity", { kind: "completed" }), null],
  [item("imageView"), { tool: "view_image", title: "" }],
  [item("webSearch"), { tool: "web_search", title: "" }],
  [item("agentMessage"), null],
  [item("userMessage"), null],
  [item("reasoning"), null],
  [item("contextCompaction"), null],
  [item("something new"), null],
])("%j", (given, expected) => {
  expect(toolOf(given)).toEqual(expected);
});

test.each([
  ["completed", "completed"],
  ["failed", "failed"],
  ["declined", "failed"],
  ["interrupted", "failed"],
  [null, "completed"],
])("an item that is %s has %s", (status, expected) => {
  expect(endOf(item("commandExecution", { status }))).toBe(expected);
});
