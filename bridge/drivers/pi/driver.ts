/**
 * The driver for pi (`--mode rpc`): starts a process with a new session, or with the saved one, and proves before the
 * first prompt that it is the very conversation (`opening.ts`).
 */
import { HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { processesLeft } from "../../process.ts";
import type { Driver, DriverManifest, LaunchRequest, LaunchResult } from "../driver.ts";
import { openPipeResident, type Pipe, startPipe } from "../stdio/resident.ts";
import { piExtensionPath } from "./extension-path.ts";
import { isSessionId, launchArguments, launchEnvironment } from "./launch-plan.ts";
import { elsewhere, forkedSession, lost, openSession } from "./opening.ts";
import { createPiSession } from "./session.ts";

const manifest: DriverManifest = {
  cli: "pi",
  gate: "answer-on-pipe",
  provesDelivery: false,
  asksPermission: true,
  asksQuestions: true,
  reportsUsage: true,
  hasSubagents: false,
  fork: { when: "at_once", state: "home/.pi/agent/sessions", except: [] },
  ranges: {},
};

export const PI: Driver = {
  manifest,
  launch,
  async fork(request, locator) {
    if (!isSessionId(locator.nativeId)) throw lost("the saved id is none of pi's");
    const pipe = await start(request, locator, true);
    try {
      return await forkedSession(pipe, locator);
    } finally {
      await stop(pipe);
    }
  },
  // A message may be stored by a process that never said so, and pi knows no id of ours to find it by.
  proveDelivery: async () => "unclear",
};

async function launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult> {
  const { slot } = request;
  // Pi finds sessions by the folder in which it runs: from another one it would offer a copy.
  if (locator !== null && locator.directory !== slot.workspace) return notResumed(elsewhere());
  if (locator !== null && !isSessionId(locator.nativeId))
    return notResumed(lost("the saved id is none of pi's"));
  const pipe = await start(request, locator, false);
  try {
    const resident = openPipeResident(pipe, createPiSession(await openSession(pipe, locator)));
    if (locator === null) return { kind: "new", resident };
    return { kind: "resumed", resident, resume: { kind: "proven" } };
  } catch (error) {
    await stop(pipe);
    if (locator !== null && error instanceof HoldfastError) return notResumed(error);
    throw error;
  }
}

function start(request: LaunchRequest, locator: Locator | null, forks: boolean): Promise<Pipe> {
  const { launch: plan, slot, modelUrl, modelKey } = request;
  const path = process.env.PATH ?? "/usr/bin:/bin";
  return startPipe(request, {
    args: launchArguments(plan, piExtensionPath(), locator?.nativeId ?? null, forks),
    environment: launchEnvironment({ slot, launch: plan, modelUrl, modelKey, path }),
    ownKey: "type",
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
