/**
 * Stands between the bridge and OpenCode's own server, byte for byte, but for the prompt:
 *
 *   node prompt-holder.ts held|swallowed CLI ARGUMENTS...
 *     held        the prompt never comes to the CLI
 *     swallowed   the CLI gets it, and from then on nothing of the CLI comes to anybody
 */
import { spawn } from "node:child_process";
import { connect, createServer, type Socket } from "node:net";

const PROMPT = /^POST \/session\/[^/]+\/prompt/;

if (import.meta.main) {
  const [mode = "", file = "", ...args] = process.argv.slice(2);
  const cli = spawn(file, args, { stdio: ["inherit", "pipe", "inherit"] });
  cli.once("exit", (code) => process.exit(code ?? 1));

  let sawPrompt = false;

  function pass(near: Socket, far: Socket): void {
    let isPrompt = false;
    near.on("data", (bytes: Buffer) => {
      isPrompt ||= PROMPT.test(bytes.toString("latin1"));
      sawPrompt ||= isPrompt;
      if (!isPrompt || mode !== "held") far.write(bytes);
    });
    far.on("data", (bytes: Buffer) => {
      // Its event stream too: the message's own event would be a word of the CLI.
      if (!sawPrompt) near.write(bytes);
    });
    near.once("error", () => far.destroy());
    near.once("close", () => far.destroy());
    // The CLI may close behind its answer: that would be an answer too.
    const onFarEnd = () => {
      if (!sawPrompt) near.destroy();
    };
    far.once("error", onFarEnd);
    far.once("close", onFarEnd);
  }

  let seen = "";
  let isServing = false;
  cli.stdout.setEncoding("utf8");
  cli.stdout.on("data", (text: string) => {
    seen += text;
    const port = /http:\/\/127\.0\.0\.1:(\d+)\s/.exec(seen)?.[1];
    if (isServing || port === undefined) return;
    isServing = true;
    const proxy = createServer((near) => pass(near, connect(Number(port), "127.0.0.1")));
    proxy.listen(0, "127.0.0.1", () => {
      const own = proxy.address();
      if (own === null || typeof own === "string") throw new TypeError("a TCP server has an address");
      process.stdout.write(seen.replace(port, String(own.port)));
    });
  });
}
