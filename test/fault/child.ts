/** The controller's process as a test holds it: started, listened to, frozen, ended hard. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { MODEL_KEY, type TestHost } from "../support/host.ts";
import { until, within } from "../support/until.ts";
import type { ChildLine, ChildOrder } from "./controller-child.ts";

const PROGRAM = fileURLToPath(new URL("controller-child.ts", import.meta.url));
const LIMIT_MS = 60_000;

export interface Child {
  readonly process: ChildProcess;
  /** The first line of that kind. */
  line<K extends ChildLine["at"]>(at: K): Promise<Extract<ChildLine, { at: K }>>;
  /** The signal that ended it, once it is gone. */
  gone(): Promise<NodeJS.Signals | null>;
  kill(): Promise<void>;
}

/** Runs `use` with a controller of its own process, while this process has none; that one is gone afterwards. */
export async function withChild(
  t: TestHost,
  order: Pick<ChildOrder, "member" | "text"> & Partial<ChildOrder>,
  use: (child: Child) => Promise<void>,
): Promise<void> {
  await t.reopen(async () => {
    const child = start({
      directory: t.directory,
      modelUrl: t.model.url,
      modelKey: MODEL_KEY,
      diesBeforeSending: false,
      ...order,
    });
    try {
      await use(child);
    } finally {
      await child.kill();
    }
  });
}

function start(order: ChildOrder): Child {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(order)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const lines: ChildLine[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(JSON.parse(line) as ChildLine));

  async function gone(): Promise<NodeJS.Signals | null> {
    await within("the child's exit", exited, LIMIT_MS);
    return child.signalCode;
  }

  return {
    process: child,
    gone,
    async line<K extends ChildLine["at"]>(at: K) {
      const isKind = (line: ChildLine): line is Extract<ChildLine, { at: K }> => line.at === at;
      return until(
        `the child's line ${at}`,
        () => {
          const found = lines.find(isKind);
          if (found === undefined && child.exitCode !== null)
            throw new Error(`the child ended: ${JSON.stringify(lines)}`);
          return found;
        },
        LIMIT_MS,
      );
    },
    async kill() {
      child.kill("SIGKILL");
      await gone();
    },
  };
}
