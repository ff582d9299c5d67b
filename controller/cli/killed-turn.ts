/** A turn whose controller, a process of its own, is killed in the middle of it. For the tour. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Environment } from "./environment.ts";
import type { TourModel } from "./tour-model.ts";

/** From the start of the other controller to the first text of its turn. */
const CHILD_MS = 30_000;

/** Returns the turn's id once the controller is dead. It dies as well when the signal aborts, or when nothing comes. */
export async function killInTurn(options: {
  environment: Environment;
  model: TourModel;
  directory: string;
  member: string;
  message: string;
  signal: AbortSignal;
}): Promise<string> {
  const { environment, model, directory, member, message, signal } = options;
  const program = join(environment.root, "controller", "cli", "main.ts");
  const args = [program, "tour-turn", member, message, "--store", directory, "--json"];
  const child = spawn(environment.node, args, {
    stdio: ["pipe", "pipe", "inherit"],
    env: environment.variables,
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const kill = () => child.kill("SIGKILL");
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  // With a key, if there is one: every process could see it in argv.
  child.stdin.once("error", () => kill());
  child.stdin.end(JSON.stringify(model.relay));
  try {
    return await within(firstTurn(child.stdout), CHILD_MS);
  } finally {
    signal.removeEventListener("abort", kill);
    kill();
    await exited;
  }
}

async function firstTurn(stdout: NodeJS.ReadableStream): Promise<string> {
  for await (const line of createInterface({ input: stdout })) {
    const { turn } = JSON.parse(line) as { turn: string };
    return turn;
  }
  throw new HoldfastError("INTERNAL", "the other controller ended before its turn began");
}

/** The work's result within the limit, or INTERNAL. */
export async function within<T>(work: Promise<T>, limitMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new HoldfastError("INTERNAL", `no end within ${limitMs} ms`)),
    limitMs,
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
