// The loopback model as a program, for callers in another process:
//   node test/support/model/main.ts [--recall] [--port 0] [--key EXPECTED]
// Prints {"url":"http://127.0.0.1:PORT/v1"} on one line when ready. Ends on SIGTERM, SIGINT, or when stdin
// closes: so the caller must hold a pipe open on it, and can't leave the program behind when it dies.
import { parseArgs } from "node:util";
import { startModelServer } from "./server.ts";

// 1. Read the arguments.
const { values } = parseArgs({
  options: {
    recall: { type: "boolean", default: false },
    port: { type: "string", default: "0" },
    key: { type: "string" },
  },
});

// 2. Listen, and say where.
const server = await startModelServer({
  port: Number(values.port),
  recall: values.recall,
  ...(values.key === undefined ? {} : { expectedKey: values.key }),
});
process.stdout.write(`${JSON.stringify({ url: server.url })}\n`);

// 3. Wait for the end.
await new Promise<void>((resolve) => {
  process.once("SIGTERM", () => resolve());
  process.once("SIGINT", () => resolve());
  process.stdin.once("close", () => resolve());
  process.stdin.once("error", () => resolve());
  process.stdin.once("end", () => resolve()).resume();
});

// 4. Let go of everything; a paused stdin would keep the process up.
await server.close();
process.stdin.destroy();
