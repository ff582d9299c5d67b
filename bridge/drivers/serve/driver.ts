/** The driver for CLIs with a server of their own: launch, new session or proven resume, proof of a delivery. */
import { HoldfastError } from "../../../protocol/errors.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { processesLeft } from "../../process.ts";
import type { Driver, DriverManifest, LaunchRequest, LaunchResult } from "../driver.ts";
import { forkedSession } from "./fork.ts";
import { messageFate, missingHistory, NEWEST_MESSAGES } from "./history.ts";
import { createNativeIds } from "./native-id.ts";
import { openResident } from "./resident.ts";
import { type ServerProcess, startServer } from "./server-process.ts";
import type { ServeTraits } from "./traits.ts";

export function createServeDriver(traits: ServeTraits): Driver {
  const manifest: DriverManifest = {
    cli: traits.cli,
    gate: "canary-on-stream",
    provesDelivery: true,
    asksPermission: true,
    asksQuestions: true,
    reportsUsage: true,
    hasSubagents: true,
    fork: {
      when: "at_once",
      state: traits.stateFolder,
      // The write-ahead log goes along; its index in shared memory is the running server's, and is made anew.
      except: ["*.db-shm", `${traits.stateFolder}/log`],
    },
    ranges: {},
  };

  async function stopServer(server: ServerProcess, request: LaunchRequest): Promise<void> {
    const left = await server.process.stop(request.limits.stopMs, async () => undefined);
    server.http.close();
    if (left.length > 0) throw processesLeft(left);
  }

  async function launch(request: LaunchRequest, locator: Locator | null): Promise<LaunchResult> {
    const server = await startServer(traits, request);
    const ids = createNativeIds(() => request.clock.nowAt(), traits.ordersById);
    try {
      if (locator === null) {
        const made = await server.api.createSession(request.slot.workspace);
        const resident = openResident({
          traits,
          request,
          server,
          session: made.id,
          directory: made.directory,
          ids,
        });
        return { kind: "new", resident };
      }
      const problem = await missingHistory(server.api, locator);
      if (problem === null) {
        const { nativeId, directory } = locator;
        for (const { info } of (await server.api.messages(nativeId, NEWEST_MESSAGES)) ?? []) ids.saw(info.id);
        const resident = openResident({ traits, request, server, session: nativeId, directory, ids });
        return { kind: "resumed", resident, resume: { kind: "proven" } };
      }
      await stopServer(server, request);
      return { kind: "not_resumed", resume: { kind: "lost", reason: problem } };
    } catch (error) {
      await stopServer(server, request);
      // While a locator is being resumed a passing fault is an error of its own and never LOST.
      if (locator !== null && error instanceof HoldfastError) {
        return { kind: "not_resumed", resume: { kind: "error", reason: error.message } };
      }
      throw error;
    }
  }

  return {
    manifest,
    launch,
    async fork(request, locator) {
      const server = await startServer(traits, request);
      try {
        return await forkedSession(server.api, locator);
      } finally {
        await stopServer(server, request);
      }
    },
    async proveDelivery(request, nativeId, nativeMessage) {
      const server = await startServer(traits, request);
      try {
        return messageFate(await server.api.messages(nativeId, NEWEST_MESSAGES), nativeMessage);
      } finally {
        await stopServer(server, request);
      }
    },
  };
}
