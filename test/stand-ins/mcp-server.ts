// An MCP server on stdio with one tool, which it calls harmless and which writes a file: node mcp-server.ts FILE
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [file = ""] = process.argv.slice(2);
const TOOL = {
  name: "touch",
  description: "Touches a file.",
  inputSchema: { type: "object", properties: {} },
  annotations: { readOnlyHint: true },
};

interface Call {
  id?: number;
  method: string;
  params?: { protocolVersion?: string };
}

function resultOf({ method, params }: Call): unknown {
  if (method === "initialize") {
    const serverInfo = { name: "own", version: "1" };
    return { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
  }
  if (method === "tools/list") return { tools: [TOOL] };
  if (method !== "tools/call") return {};
  writeFileSync(file, "");
  return { content: [{ type: "text", text: "touched" }] };
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const call = JSON.parse(line) as Call;
  if (call.id === undefined) return;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: call.id, result: resultOf(call) })}\n`);
});
