/**
 * The driver for Codex (`codex app-server`): starts a process with a new thread, or with the saved one, and proves
 * before the first prompt that it is the very conversation (`opening.ts`).
 */
import { HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { processesLeft } from "../../process.ts";
import type { Driver, DriverManifest, LaunchRequest, LaunchResult } from "../driver.ts";
import { openPipeResident, startPipe } from "../stdio/resident.ts";
import { launchArguments, launchEnvironment } from "./launch-plan.ts";
import { elsewhere, openThread } from "./opening.ts";
import { createCodexSession } from "./session.ts";

const manifest: DriverManifest = {
  cli: "codex",
  gate: "answer-on-pipe",
  provesDelivery: false,
  asksPermission: true,
  asksQuestions: true,
  reportsUsage: true,
  hasSubagents: true,
  ranges: {},
};

export const CODEX: Driver = {
  manifest,
  launch,
  // Its index and its record may both be behind a process that died: neither proves that a message was not taken.
  proveDelivery: async () => "unclear",
};

async function launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult> {
  const { launch: plan, slot, modelUrl } = request;
  // Codex would take any folder that it is told: the saved one is the conversation's.
  if (locator !== null && locator.directory !== slot.workspace) return notResumed(elsewhere());
  const pipe = await startPipe(request, {
    args: launchArguments(plan, modelUrl),
    environment: launchEnvironment(slot, process.env.PATH ?? "/usr/bin:/bin"),
    ownKey: ["method", "id"],
  });
  try {
    const resident = openPipeResident(pipe, createCodexSession(await openThread(pipe, locator)));
    if (locator === null) return { kind: "new", resident };
    return { kind: "resumed", resident, resume: { kind: "proven" } };
  } catch (error) {
    const left = await pipe.stop(true);
    if (left.length > 0) throw processesLeft(left);
    if (locator !== null && error instanceof HoldfastError) return notResumed(error);
    throw error;
  }
}

/** While a locator is being resumed a passing fault is an error of its own and never LOST. */
function notResumed({ code, message }: HoldfastError): LaunchResult {
  const kind = code === "CONTEXT_LOST" ? "lost" : "error";
  return { kind: "not_resumed", resume: { kind, reason: message } };
}
