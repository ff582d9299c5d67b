// The command line as a user runs it: a child process with an environment of its own, over pipes or over a terminal.
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { createOutput, type Output } from "../../controller/cli/output.ts";
import { testLabel } from "../../scripts/leftovers.ts";
import { until, within } from "./until.ts";

const MAIN = fileURLToPath(new URL("../../controller/cli/main.ts", import.meta.url));
/** Runs a command on a terminal of its own; part of util-linux, which Debian always has. */
const TERMINAL = "script";
/** No engine is there. */
export const DEAD_ENGINE = "unix:///nonexistent/engine.sock";

export interface CliOptions {
  store: string;
  /** Beside or in the place of what every child gets. */
  env?: Record<string, string>;
  /** Whole standard input; undefined: it stays open, and empty. */
  input?: string | Buffer;
  /** A whole program in the place of `controller/cli/main.ts`. */
  program?: string;
  limitMs?: number;
}

export interface CliEnd {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Cli {
  readonly child: ChildProcessWithoutNullStreams;
  /** What came so far, both streams in order of arrival. */
  all(): string;
  type(text: string | Buffer): void;
  /** The output behind `from` once it holds the text; rejects with the output when it does not come. */
  shows(text: string | RegExp, from?: number): Promise<void>;
  readonly end: Promise<CliEnd>;
}

/** Marks by which a test's containers and processes are found. */
function marks(): Record<string, string> {
  const run = process.env.HOLDFAST_TEST_RUN ?? "none";
  // The second one is what processes are found by, also those of a process sandbox.
  return { HOLDFAST_LABELS: `${testLabel}=${run},HOLDFAST_TEST_RUN=${run}`, HOLDFAST_TEST_RUN: run };
}

function environment({ store, env }: CliOptions): Record<string, string> {
  const kept = ["PATH", "DOCKER_HOST", "HOLDFAST_DIST", "LANG"].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    ...(Object.fromEntries(kept) as Record<string, string>),
    HOME: "/nonexistent",
    TERM: "xterm",
    LC_ALL: "C.UTF-8",
    HOLDFAST_STORE: store,
    ...marks(),
    ...env,
  };
}

function follow(child: ChildProcessWithoutNullStreams, input: CliOptions["input"]): Cli {
  const texts = { stdout: "", stderr: "", all: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
      texts.all += text;
    });
  }
  // It may end before it has read everything.
  child.stdin.on("error", () => undefined);
  if (input !== undefined) child.stdin.end(input);
  const end = new Promise<CliEnd>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout: texts.stdout, stderr: texts.stderr }));
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    child.stdin.destroy();
    await end;
  });
  return {
    child,
    end,
    all: () => texts.all,
    type: (text) => void child.stdin.write(text),
    async shows(text, from = 0) {
      const isThere = () => {
        const shown = texts.all.slice(from);
        return typeof text === "string" ? shown.includes(text) : text.test(shown);
      };
      await until(`output ${text}`, isThere, 60_000).catch((cause: unknown) => {
        throw new Error(`never shown: ${text}\n${texts.all}`, { cause });
      });
    },
  };
}

export function startCli(args: readonly string[], options: CliOptions): Cli {
  const child = spawn(process.execPath, [options.program ?? MAIN, ...args], { env: environment(options) });
  return follow(child, options.input);
}

/** The same on a terminal, whose master side the test holds: what is typed is written, what is shown is read. */
export function startOnTerminal(args: readonly string[], options: CliOptions): Cli {
  const words = [process.execPath, options.program ?? MAIN, ...args].map((word) => `'${word}'`);
  const child = spawn(TERMINAL, ["-qefc", `exec ${words.join(" ")}`, "/dev/null"], {
    env: { ...environment(options), SHELL: "/bin/sh" },
  });
  return follow(child, options.input);
}

/** Runs it to its end. */
export async function cli(args: readonly string[], options: CliOptions): Promise<CliEnd> {
  const running = startCli(args, { input: "", ...options });
  return await within(`the end of holdfast ${args.join(" ")}`, running.end, options.limitMs ?? 15_000);
}

export interface KeptOutput extends Output {
  out(): string;
  err(): string;
}

/** An output whose text the test looks at. */
export function keptOutput(
  options: { isJson?: boolean; isTerminal?: boolean; callName?: string } = {},
): KeptOutput {
  const { isJson = false, isTerminal = false, callName = "holdfast" } = options;
  let out = "";
  let err = "";
  const streams = {
    stdout: {
      isTTY: isTerminal,
      write: (text: string) => {
        out += text;
      },
    },
    stderr: {
      isTTY: isTerminal,
      write: (text: string) => {
        err += text;
      },
    },
  };
  const output = createOutput({ isJson, noColor: false, callName, streams });
  return { ...output, out: () => out, err: () => err };
}
