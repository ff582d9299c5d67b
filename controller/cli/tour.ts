/**
 * The recall tour: one sandbox, one member, five turns, and what each of them proves. Runs the steps; what is printed is
 * `demo.ts`'s.
 */
import { asHoldfastError, HoldfastError } from "../../protocol/errors.ts";
import type { ContextStatus, Outcome, Settlement } from "../../protocol/settlement.ts";
import type { Host } from "../host.ts";
import type { SandboxKind } from "../store/records.ts";
import type { Environment } from "./environment.ts";
import { orAborted } from "./interrupts.ts";
import { killInTurn, within } from "./killed-turn.ts";
import { memberOptions, type OpenHost, openCommandHost } from "./open.ts";
import { type Output, oneLine } from "./output.ts";
import type { TourModel } from "./tour-model.ts";
import { show } from "./turn-display.ts";

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
/** For the new controller to find the end of the turn that the killed one left. */
const ADOPT_MS = 40_000;
/** For a start that is under way when the tour is stopped. */
const START_MS = 10_000;

/** Removes everything that it made, also when it fails or the signal ends it (STOPPED). */
export async function runTour(options: {
  environment: Environment;
  output: Output;
  model: TourModel;
  kind: SandboxKind;
  directory: string;
  signal: AbortSignal;
}): Promise<TourResult> {
  const { environment, output, model, kind, directory, signal } = options;
  const rows: TourRow[] = [];
  const proofs: TourResult["proofs"] = [];
  const open = () =>
    openCommandHost({
      environment: { ...environment, storeDirectory: directory, storeUrl: null },
      output,
      relay: model.relay,
    });
  let opened: OpenHost = await open();
  /** False while another controller has the store. */
  let isOpen = true;
  const sandbox = opened.host.createSandbox({ kind }).id;
  const cli = "opencode";
  const member = opened.host.createMember({
    sandbox,
    cli,
    ...memberOptions(cli, model.model),
    ...(model.route === undefined ? {} : { route: model.route }),
  }).id;

  /** The work's result, unless the tour is stopped first. */
  async function orStopped<T>(work: Promise<T>): Promise<T> {
    const result = await orAborted(
      work.then((value) => ({ value })),
      signal,
    );
    if (result === null) throw new HoldfastError("STOPPED", "the tour was stopped");
    return result.value;
  }

  function announce(step: string, message: string): void {
    output.progress("");
    output.progress(step, "bold");
    output.progress(`> ${message}`);
  }

  async function say(step: string, message: string, expected: TourRow["expected"]): Promise<Settlement> {
    await orStopped(Promise.resolve());
    announce(step, message);
    const startMs = performance.now();
    const settlement = await orStopped(show(opened.host.submit(member, message), output));
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
    await orStopped(opened.host.stopSandbox(sandbox));
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
    const leftOut = [...(kind === "docker" ? [] : LEFT_OUT_WITHOUT_CONTAINER)];
    if (received === null) leftOut.push("what the model received: only the scripted model shows it");
    return { kind, rows, proofs, leftOut };
  } finally {
    await cleanUp();
  }

  async function startEnded(host: Host): Promise<void> {
    await within(host.startSandbox(sandbox), START_MS).catch((error: unknown) => {
      output.progress(`holdfast: the sandbox did not start: ${oneLine(asHoldfastError(error).message)}`);
    });
  }

  /** Never throws: the tour's own error is the one to be seen. */
  async function cleanUp(): Promise<void> {
    try {
      if (!isOpen) opened = await open();
      // A start that is under way would make its container after the removal.
      if (opened.host.store.openTurnsOf(sandbox).length > 0) await startEnded(opened.host);
      await opened.host.removeSandbox(sandbox);
      await opened.close();
    } catch (error) {
      output.progress(`holdfast: the tour's sandbox ${sandbox} may be left: ${oneLine(String(error))}`);
    }
  }

  /** Another controller takes the store, starts a slow turn, and is killed in the middle of it. */
  async function killedController(): Promise<void> {
    const step = "4. the controller is killed in a turn";
    announce(step, SLOW);
    await orStopped(model.makeSlow(SLOW));
    await opened.close();
    isOpen = false;
    const startMs = performance.now();
    const turn = await killInTurn({ environment, model, directory, member, message: SLOW, signal });
    output.progress("the controller is dead (SIGKILL); another one takes over its store");
    opened = await open();
    isOpen = true;
    const handle = opened.host.running(turn);
    const settlement =
      handle === null
        ? opened.host.turn(turn).settlement
        : await orStopped(within(handle.settlement, ADOPT_MS));
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

const LEFT_OUT_WITHOUT_CONTAINER = [
  "isolation: a process sandbox has none (no own users, no limits, no closed network)",
  "attestation of image, labels and mounts: a process sandbox has no image",
  "retaining a container's writable layer: its place is a plain folder here",
];

function mentions({ parts }: Settlement, word: string): boolean {
  return parts.join(" ").includes(word);
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
