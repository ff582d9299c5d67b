/**
 * The recall tour: one sandbox, one member, five turns, and what each of them proves. Runs the steps; what is printed is
 * `demo.ts`'s.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { HoldfastError } from "../../protocol/errors.ts";
import type { ContextStatus, Outcome, Settlement } from "../../protocol/settlement.ts";
import type { Host } from "../host.ts";
import type { SandboxKind } from "../store/records.ts";
import { memberOptions, show } from "./chat.ts";
import type { Environment } from "./environment.ts";
import { type OpenHost, openCommandHost } from "./open.ts";
import type { Output } from "./output.ts";
import type { TourModel } from "./tour-model.ts";

export interface TourRow {
  step: string;
  expected: { context: ContextStatus | null; outcome: Outcome };
  settlement: Settlement;
  tookMs: number;
}

export interface TourResult {
  kind: SandboxKind;
  rows: TourRow[];
  /** What was shown, and whether it held. */
  proofs: Array<{ claim: string; holds: boolean }>;
  /** Parts of the tour that could not be played here. */
  leftOut: string[];
}

const TELL = "The code word is heron. Please remember it.";
const ASK = "What is the code word?";
const SLOW = "Count slowly from one to twelve, please.";
/** From the start of the other controller to the first text of its turn. */
const CHILD_MS = 30_000;
const ADOPT_MS = 40_000;

export async function runTour(options: {
  environment: Environment;
  output: Output;
  model: TourModel;
  kind: SandboxKind;
  directory: string;
}): Promise<TourResult> {
  const { environment, output, model, kind, directory } = options;
  const rows: TourRow[] = [];
  const proofs: TourResult["proofs"] = [];
  const open = () =>
    openCommandHost({
      environment: { ...environment, storeDirectory: directory },
      output,
      route: model.route,
    });
  let opened: OpenHost = await open();
  const sandbox = opened.host.createSandbox({ kind }).id;
  const member = opened.host.createMember({ sandbox, cli: "opencode", ...memberOptions(model.model) }).id;

  async function say(step: string, message: string, expected: TourRow["expected"]): Promise<Settlement> {
    output.progress(`\n${output.bold(step)}\n> ${message}`);
    const startMs = performance.now();
    const settlement = await show(opened.host.submit(member, message), output);
    rows.push({ step, expected, settlement, tookMs: performance.now() - startMs });
    return settlement;
  }
  const holds = (claim: string, isTrue: boolean) => proofs.push({ claim, holds: isTrue });

  try {
    const first = await say("1. a first message", TELL, { context: "NEW", outcome: "completed" });
    const live = await say("2. a follow-up to the same process", ASK, {
      context: "LIVE",
      outcome: "completed",
    });
    holds("the follow-up was answered from the conversation", mentions(live, "heron"));

    output.progress("\nstopping the sandbox; its next turn starts it again");
    await opened.host.stopSandbox(sandbox);
    const restored = await say("3. after stop and start", ASK, { context: "RESTORED", outcome: "completed" });
    holds(
      "after the restart the same native session answered",
      restored.session?.nativeId === first.session?.nativeId,
    );
    holds("the code word was known after the restart", mentions(restored, "heron"));
    const received = (await model.receivedTexts())?.at(-1) ?? null;
    if (received !== null) {
      const isWhole =
        received.length === 3 && received[0] === TELL && received[1] === ASK && received[2] === ASK;
      holds("the model's own input held every message once, byte for byte, in order", isWhole);
    }

    await killedController();
    await removedBehind();
    return { kind, rows, proofs, leftOut: kind === "docker" ? [] : LEFT_OUT };
  } finally {
    await opened.host.removeSandbox(sandbox);
    await opened.close();
  }

  /** Another controller takes the store, starts a slow turn, and is killed in the middle of it. */
  async function killedController(): Promise<void> {
    const step = "4. the controller is killed in a turn";
    output.progress(`\n${output.bold(step)}\n> ${SLOW}`);
    await model.makeSlow(SLOW);
    await opened.close();
    const startMs = performance.now();
    const turn = await killInTurn({ environment, model, directory, member, message: SLOW });
    output.progress("the controller is dead (SIGKILL); another one takes over its store");
    opened = await open();
    const handle = opened.host.running(turn);
    const settlement =
      handle === null ? opened.host.turn(turn).settlement : await within(handle.settlement, ADOPT_MS);
    if (settlement === null)
      throw new HoldfastError("INTERNAL", "the turn of the killed controller has no end");
    rows.push({
      step,
      expected: { context: "LIVE", outcome: "completed" },
      settlement,
      tookMs: performance.now() - startMs,
    });
    const texts = await model.receivedTexts();
    // The model's stream ran through the dead controller: the CLI may have asked its provider again by itself, but the
    // prompt must be in the conversation once.
    const times = texts?.at(-1)?.filter((message) => message === SLOW).length;
    if (times !== undefined) holds("the conversation holds the killed controller's prompt once", times === 1);
    const settled = opened.host.store.turnsOf(member, 100).filter(({ state }) => state === "settled").length;
    holds("its turn settled once", settled === 4 && opened.host.member(member).settled_turns === 4);
  }

  /** The place of the conversation goes away without the controller's doing. */
  async function removedBehind(): Promise<void> {
    output.progress("\nremoving the sandbox behind the controller's back");
    const { host } = opened;
    const before = (await model.receivedTexts())?.length ?? null;
    await removeBehind(host, sandbox, opened);
    const locator = JSON.stringify(host.member(member).locator);
    await say("5. after its sandbox was removed", ASK, { context: "LOST", outcome: "refused" });
    const after = (await model.receivedTexts())?.length ?? null;
    if (before !== null) holds("nothing was sent to the model after the loss", before === after);
    holds("the saved locator stayed as it was", JSON.stringify(host.member(member).locator) === locator);
  }
}

const LEFT_OUT = [
  "isolation: a process sandbox has none (no own users, no limits, no closed network)",
  "attestation of image, labels and mounts: a process sandbox has no image",
  "retaining a container's writable layer: its place is a plain folder here",
];

function mentions({ parts }: Settlement, word: string): boolean {
  return parts.join(" ").includes(word);
}

async function killInTurn(options: {
  environment: Environment;
  model: TourModel;
  directory: string;
  member: string;
  message: string;
}): Promise<string> {
  const { environment, model, directory, member, message } = options;
  const program = join(environment.root, "controller", "cli", "main.ts");
  const args = [
    program,
    "tour-turn",
    member,
    message,
    "--store",
    directory,
    "--model-url",
    model.route.baseUrl,
    "--json",
  ];
  const child = spawn(environment.node, args, {
    stdio: ["ignore", "pipe", "inherit"],
    env: environment.variables,
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  try {
    return await within(firstTurn(child.stdout), CHILD_MS);
  } finally {
    child.kill("SIGKILL");
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

/** Not through the host: as somebody else would do it. */
async function removeBehind(host: Host, sandbox: string, { setup }: OpenHost): Promise<void> {
  const row = host.store.sandbox(sandbox);
  const driver = setup.drivers.find(({ kind }) => kind === row?.kind);
  if (row?.container == null || driver === undefined)
    throw new HoldfastError("INTERNAL", "the tour's sandbox has no place");
  const spec = {
    storeId: host.store.id,
    sandboxId: sandbox,
    generation: row.generation,
    directory: row.directory,
  };
  await driver.remove(spec, row.container.containerId);
}

async function within<T>(work: Promise<T>, limitMs: number): Promise<T> {
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
