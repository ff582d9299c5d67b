/** Items of a thread that are work of a tool: under which word, and what is shown of them. Pure. */
import type { Observation } from "../driver.ts";
import { ASKED } from "./launch-plan.ts";
import type { Item } from "./native-message.ts";
import { commandPattern } from "./shell-words.ts";

type ToolStatus = Extract<Observation, { kind: "tool" }>["status"];

/** The word by which the model calls it; null for an item that is no tool's. */
export function toolOf(item: Item): { tool: string; title: string } | null {
  switch (item.type) {
    case "commandExecution":
      return { tool: ASKED.command, title: commandPattern(item.command ?? "") };
    case "fileChange":
      return { tool: ASKED.patch, title: (item.changes ?? []).map(({ path }) => path).join(", ") };
    case "mcpToolCall":
      return { tool: `${item.server ?? "mcp"}.${item.tool ?? "?"}`, title: "" };
    case "dynamicToolCall":
      return { tool: [item.namespace, item.tool ?? "?"].filter(Boolean).join("."), title: "" };
    case "collabAgentToolCall":
      return { tool: `multi_agent_v1.${COLLABORATION[item.tool ?? ""] ?? "?"}`, title: item.prompt ?? "" };
    case "subAgentActivity": {
      // What a subagent does by itself is told by this item too, and is no call.
      const tool = ACTIVITY[item.kind ?? ""];
      return tool === undefined ? null : { tool: `collaboration.${tool}`, title: item.agentPath ?? "" };
    }
    case "imageView":
      return { tool: "view_image", title: "" };
    case "webSearch":
      return { tool: "web_search", title: "" };
    default:
      return null;
  }
}

/** An item's own words for how its work went; one without any ended well. */
export function endOf({ status }: Item): Exclude<ToolStatus, "running"> {
  return status === "failed" || status === "declined" || status === "interrupted" ? "failed" : "completed";
}

const ACTIVITY: Readonly<Record<string, string>> = {
  started: "spawn_agent",
  interrupted: "interrupt_agent",
};

const COLLABORATION: Readonly<Record<string, string>> = {
  spawnAgent: "spawn_agent",
  sendInput: "send_input",
  resumeAgent: "resume_agent",
  wait: "wait_agent",
  closeAgent: "close_agent",
};
