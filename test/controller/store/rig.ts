/** A store with sandboxes and members to try its steps on, and the events that a bridge would send. */
import { onTestFinished } from "vitest";
import { openStore } from "../../../controller/store/sqlite-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import type { ControlEvent, NumberedEvent } from "../../../protocol/events.ts";
import type { ContextStatus, Settlement } from "../../../protocol/settlement.ts";
import { OPTIONS } from "../../support/member-options.ts";
import { AT, CONTAINER, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

export interface Rig {
  store: Store;
  readonly directory: string;
  /** Closes the store and opens it anew. */
  reopen(): void;
  /** A sandbox whose container is bound and whose journal is followed. */
  box(id: string): void;
  member(id: string, sandbox?: string): void;
  admit(id: string, member?: string): void;
  /** Applies events at the next sequence numbers of the sandbox's journal. */
  apply(events: readonly ControlEvent[], sandbox?: string): ReturnType<Store["apply"]>;
}

export function storeRig(): Rig {
  const directory = temporaryDirectory();
  const open = () => openStore({ directory, nowAt: () => AT, cliVersion: () => "1.14.50" });
  const rig: Rig = {
    store: open(),
    directory,
    reopen() {
      rig.store.close();
      rig.store = open();
    },
    box(id) {
      rig.store.createSandbox({ id, kind: "docker", directory: `/d/${id}` });
      rig.store.bindContainer(id, { ...CONTAINER, sandboxId: id });
      rig.store.follow(id, { journalId: `journal-${id}`, epoch: 1, seq: 0, acked: 0 });
    },
    member(id, sandbox = "box") {
      rig.store.createMember({ id, sandbox, cli: "opencode", options: OPTIONS });
    },
    admit: (id, member = "m-1") => {
      rig.store.admit({ id, member, textSha256: "ab", textBytes: 2 });
    },
    apply(events, sandbox = "box") {
      const applied = rig.store.sandbox(sandbox)?.applied ?? 0;
      return rig.store.apply(sandbox, numbered(events, applied + 1));
    },
  };
  onTestFinished(() => rig.store.close());
  return rig;
}

/** A rig with one sandbox and one member, `m-1`. */
export function simpleRig(): Rig {
  const rig = storeRig();
  rig.box("box");
  rig.member("m-1");
  return rig;
}

export function numbered(events: readonly ControlEvent[], from = 1): NumberedEvent[] {
  return events.map((event, at) => ({ seq: from + at, at: AT, event }));
}

export function context(
  turn: string,
  status: ContextStatus,
  nativeId: string | null,
  member = "m-1",
): ControlEvent {
  return { type: "turn.context", turn, member, status, reason: "", nativeId };
}

export const delivered = (turn: string, member = "m-1"): ControlEvent => ({
  type: "turn.delivered",
  turn,
  member,
});

export function ended(turn: string, changes: Partial<Settlement> = {}, member = "m-1"): ControlEvent {
  return { type: "turn.ended", turn, member, number: 1, settlement: { ...SETTLEMENT, ...changes } };
}

/** A session as a settlement names it. */
export function session(nativeId: string, isVerified = true): NonNullable<Settlement["session"]> {
  return { nativeId, directory: "/workspace", tail: { role: "assistant", id: "msg_1" }, isVerified };
}
