/**
 * The driver for Codex (`codex app-server`): starts a process with a new thread, or with the saved one, and proves
 * before the first prompt that it is the very conversation (`opening.ts`).
 */
import { HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { processesLeft } from "../../process.ts";
import type { Driver, DriverManifest, LaunchRequest, LaunchResult } from "../driver.ts";
import { openPipeResident, type Pipe, startPipe } from "../stdio/resident.ts";
import { launchArguments, launchEnvironment } from "./launch-plan.ts";
import { elsewhere, forkThread, openThread } from "./opening.ts";
import { createCodexSession } from "./session.ts";

const manifest: DriverManifest = {
  cli: "codex",
  gate: "answer-on-pipe",
  provesDelivery: false,
  asksPermission: true,
  asksQuestions: true,
  reportsUsage: true,
  hasSubagents: true,
  // The records alone: its databases are an index of them, hold the paths of the parent's slot, and are made anew.
  fork: { when: "at_once", state: "home/.codex/sessions", except: [] },
  ranges: {},
};

export const CODEX: Driver = {
  manifest,
  launch,
  async fork(request, locator) {
    const pipe = await start(request);
    try {
      return await forkThread(pipe, locator);
    } finally {
      await stop(pipe);
    }
  },
  // Its index and its record may both be behind a process that died: neither proves that a message was not taken.
  proveDelivery: async () => "unclear",
};

async function launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult> {
  const { slot } = request;
  // Codex would take any folder that it is told: the saved one is the conversation's.
  if (locator !== null && locator.directory !== slot.workspace) return notResumed(elsewhere());
  const pipe = await start(request);
  try {
    const resident = openPipeResident(pipe, createCodexSession(await openThread(pipe, locator)));
    if (locator === null) return { kind: "new", resident };
    return { kind: "resumed", resident, resume: { kind: "proven" } };
  } catch (error) {
    await stop(pipe);
    if (locator !== null && error instanceof HoldfastError) return notResumed(error);
    throw error;
  }
}

function start(request: LaunchRequest): Promise<Pipe> {
  const { launch, slot, modelUrl, modelKey } = request;
  return startPipe(request, {
    args: launchArguments(launch, modelUrl),
    environment: launchEnvironment(slot, process.env.PATH ?? "/usr/bin:/bin", modelKey),
    ownKey: ["method", "id"],
  });
}

async function stop(pipe: Pipe): Promise<void> {
  const left = await pipe.stop(true);
  if (left.length > 0) throw processesLeft(left);
}

/** While a locator is being resumed a passing fault is an error of its own and never LOST. */
function notResumed({ code, message }: HoldfastError): LaunchResult {
  const kind = code === "CONTEXT_LOST" ? "lost" : "error";
  return { kind: "not_resumed", resume: { kind, reason: message } };
}
