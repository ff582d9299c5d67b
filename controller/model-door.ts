/**
 * A sandbox's way to the model: the Unix socket on which its bridge's inlet dials, and what the relay must know of whoever
 * calls there. Of the events it keeps the native ids that are not saved yet, and passes on that a process has ended.
 */
import type { NumberedEvent } from "../protocol/events.ts";
import { callersOf } from "./relay/model-token.ts";
import type { Relay, ServedDoor } from "./relay/relay.ts";
import { directoryModes, type SandboxPaths } from "./sandboxes/directory.ts";
import type { Store } from "./store/store.ts";
import { closeServer, listenOn } from "./unix-server.ts";

export interface ModelDoorOptions {
  sandbox: string;
  store: Store;
  relay: Relay;
  paths: SandboxPaths;
  takeOver: boolean;
  /** Turns of which nothing has been sent: what their member's CLI does is not of theirs. */
  unsent: ReadonlySet<string>;
}

export interface ModelDoor {
  /** @param token the sandbox's own */
  open(token: string): Promise<void>;
  /** Events that took effect. */
  applied(entries: readonly NumberedEvent[]): void;
  /** The bridge may be another one than before. */
  recheck(): void;
  /** Ends the calls that run. */
  close(): Promise<void>;
}

export function createModelDoor(options: ModelDoorOptions): ModelDoor {
  const { sandbox, store, relay, unsent } = options;
  /** Sessions that turns have named, by member; the locator follows with the settlement. */
  const named = new Map<string, string>();
  let served: ServedDoor | null = null;
  let close: () => Promise<void> = async () => undefined;

  function standing(id: string) {
    const member = store.member(id);
    if (member === null || member.sandbox !== sandbox) return null;
    const { model, route } = member.options;
    const open = store.openTurnsOf(sandbox).find((turn) => turn.member === id && !unsent.has(turn.id));
    return {
      protocol: model.protocol,
      route,
      turn: open?.id ?? null,
      nativeId: named.get(id) ?? (member.pending_locator ?? member.locator)?.nativeId ?? null,
    };
  }

  return {
    async open(token) {
      const { modelSocket } = options.paths;
      const { takeOver } = options;
      const server = await listenOn(modelSocket, directoryModes().file, {
        takeOver,
        maxHeaderSize: relay.headerBytes,
      });
      served = relay.serve(server, {
        sandbox,
        callerOf: callersOf(store, sandbox, token),
        mayCall: (caller) => store.mayCall(sandbox, caller),
        standing,
      });
      close = () => closeServer(server);
    },
    applied(entries) {
      let hasChanged = false;
      for (const { event } of entries) {
        if (event.type === "turn.context" && event.nativeId !== null) named.set(event.member, event.nativeId);
        if (event.type === "member.process") hasChanged = true;
      }
      if (hasChanged) served?.recheck();
    },
    recheck: () => served?.recheck(),
    async close() {
      served?.cut();
      served = null;
      const open = close;
      close = async () => undefined;
      await open();
    },
  };
}
