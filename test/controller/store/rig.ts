/**
 * A store with sandboxes and members to try its steps on, and the events that a bridge would send. On SQLite, unless the
 * file says otherwise: the suites run on both.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";
import { openStore, type StorePlace } from "../../../controller/store/open-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import type { ControlEvent, NumberedEvent } from "../../../protocol/events.ts";
import type { ContextStatus, Settlement } from "../../../protocol/settlement.ts";
import { OPTIONS } from "../../support/member-options.ts";
import { AT, CONTAINER, SETTLEMENT } from "../../support/samples.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

type Row = Record<string, unknown>;

/** Where a test's store is, and a connection beside it. */
export interface RigPlace {
  readonly place: StorePlace;
  look(sql: string): Promise<Row[]>;
}

let newPlace: (directory: string) => RigPlace = (directory) => ({
  place: { directory },
  look(sql) {
    const database = new DatabaseSync(join(directory, "holdfast.db"));
    try {
      return Promise.resolve(database.prepare(sql).all());
    } finally {
      database.close();
    }
  },
});

/** For the rest of the file. */
export function usePlaces(make: () => RigPlace): void {
  newPlace = make;
}

export interface Rig {
  store: Store;
  /** Of a store on SQLite. */
  readonly directory: string;
  readonly place: StorePlace;
  /** Rows of a statement by another connection. */
  look(sql: string): Promise<Row[]>;
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
  const { place, look } = newPlace(directory);
  const open = () => openStore({ ...place, nowAt: () => AT, cliVersion: () => "1.14.50" });
  const rig: Rig = {
    store: open(),
    directory,
    place,
    look,
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
