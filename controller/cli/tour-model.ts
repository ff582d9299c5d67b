/**
 * The tour's model: a provider that the user named, or the scripted one on loopback, started as a program of its own so
 * that it outlives the controller which the tour kills.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Environment } from "./environment.ts";
import { type ModelSettings, relayOf } from "./relay-settings.ts";

export interface TourModel extends ModelSettings {
  /** What the tour says about it. */
  readonly description: string;
  /** The user texts of each request that the model really got, oldest first; null when nobody can know. */
  receivedTexts(): Promise<string[][] | null>;
  /** Makes the answer to a message that contains `match` slow; no effect on a real provider. */
  makeSlow(match: string): Promise<void>;
  close(): Promise<void>;
}

const READY_MS = 10_000;
/** Twelve pieces, 300 ms apart: long enough to kill a controller in the middle. */
const SLOW_PIECES = 12;
const SLOW_GAP_MS = 300;

const Ready = z.object({ url: z.string() });
const Requests = z.object({
  requests: z.array(
    z.object({
      request: z.nullable(
        z.object({ rows: z.array(z.object({ role: z.string(), texts: z.array(z.string()) })) }),
      ),
    }),
  ),
});

export function namedModel(settings: ModelSettings): TourModel {
  return {
    ...settings,
    description: `${settings.model} at ${addressOf(settings)}`,
    receivedTexts: async () => null,
    makeSlow: async () => undefined,
    close: async () => undefined,
  };
}

function addressOf({ relay: { routes }, route }: ModelSettings): string {
  return (routes.find(({ name }) => name === route) ?? routes[0])?.baseUrl ?? "";
}

export async function loopbackModel(environment: Environment): Promise<TourModel> {
  const program = join(environment.root, "test", "support", "model", "main.ts");
  if (!existsSync(program)) {
    throw new HoldfastError(
      "USAGE",
      "this package has no scripted model: name one with --base-url and --model",
    );
  }
  // It ends with its standard input, so it can't be left behind whatever happens to us.
  const child = spawn(environment.node, [program, "--recall", "--port", "0"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const url = await firstLine(child.stdout, exited);
  const control = url.replace(/\/v1$/, "/_control");

  return {
    relay: relayOf({ baseUrl: url, key: null, upstream: {} }),
    route: undefined,
    model: "m1",
    description: "the scripted model on loopback (no provider was given)",
    async receivedTexts() {
      const answer = await fetch(`${control}/requests?main`, { signal: AbortSignal.timeout(5000) });
      return Requests.parse(await answer.json()).requests.map(({ request }) =>
        (request?.rows ?? []).flatMap(({ role, texts }) => (role === "user" ? [texts.join("")] : [])),
      );
    },
    async makeSlow(match) {
      const text = Array.from({ length: SLOW_PIECES }, (_, at) => `step ${at + 1} of ${SLOW_PIECES}. `);
      const body = JSON.stringify({ match, steps: [{ kind: "reply", text, betweenChunksMs: SLOW_GAP_MS }] });
      const answer = await fetch(`${control}/script`, {
        method: "POST",
        body,
        signal: AbortSignal.timeout(5000),
      });
      if (!answer.ok)
        throw new HoldfastError("MODEL_UNREACHABLE", `the scripted model answered ${answer.status}`);
    },
    async close() {
      child.stdin.end();
      child.kill("SIGTERM");
      await exited;
    },
  };
}

function firstLine(stdout: NodeJS.ReadableStream, exited: Promise<void>): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (why: string) => reject(new HoldfastError("MODEL_UNREACHABLE", `the scripted model ${why}`));
    const timer = setTimeout(() => fail(`was not ready within ${READY_MS} ms`), READY_MS);
    void exited.then(() => fail("ended before it was ready"));
    createInterface({ input: stdout }).once("line", (line) => {
      clearTimeout(timer);
      const parsed = Ready.safeParse(JSON.parse(line));
      if (parsed.success) resolve(parsed.data.url);
      else fail("printed something unexpected");
    });
  });
}
