// What the server knows: sessions with their messages (kept on disk, as the real one keeps them), what is busy, and
// what is pending. Makes ids and events in the native shapes.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Bus, createBus } from "./bus.ts";
import type { ReplyPlan, Script } from "./script.ts";

export interface Stored {
  info: Record<string, unknown> & { id: string; role: string };
  parts: Array<Record<string, unknown> & { id: string; type: string }>;
}

export interface StoredSession {
  id: string;
  directory: string;
  parentID?: string;
  messages: Stored[];
}

/** A request for permission or a question that waits. */
export interface Pending {
  id: string;
  sessionID: string;
  replies: ReplyPlan[];
  settle(reply: string): void;
  raw: Record<string, unknown>;
}

export interface World {
  script: Script;
  isKilo: boolean;
  bus: Bus;
  sessions: Map<string, StoredSession>;
  status: Map<string, Record<string, unknown>>;
  permissions: Map<string, Pending>;
  questions: Map<string, Pending>;
  /** Kilo: whether to try the provider again. */
  network: Map<string, Pending>;
  /** Sessions that GET answers with 404 so many times more. */
  hidden: Map<string, number>;
  newId(prefix: string): string;
  emit(session: string, type: string, properties: Record<string, unknown>): void;
  setStatus(session: string, status: Record<string, unknown> & { type: string }): void;
  idle(session: string): void;
  create(directory: string, parent?: string): StoredSession;
  /** Stores a message or its new form, and says so. */
  message(session: string, info: Record<string, unknown> & { id: string; role: string }): void;
  part(session: string, message: string, part: Record<string, unknown> & { id: string; type: string }): void;
  save(): void;
}

const DURABLE = /^(session\.(created|updated)|message\.(part\.)?(updated|removed))$/;

export function createWorld(script: Script, dataDirectory: string): World {
  const file = join(dataDirectory, "stand-in.json");
  const kept = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as StoredSession[]) : [];
  const sessions = new Map(kept.map((session) => [session.id, session]));
  const bus = createBus(script.stream ?? {});
  const status = new Map<string, Record<string, unknown>>();
  const isKilo = script.cli === "kilo";
  let count = 0;

  const world: World = {
    script,
    isKilo,
    bus,
    sessions,
    status,
    permissions: new Map(),
    questions: new Map(),
    network: new Map(),
    hidden: new Map(),
    newId(prefix) {
      count += 1;
      const time = (BigInt(Date.now()) * 4096n + BigInt(count)) % 2n ** 48n;
      return `${prefix}_${time.toString(16).padStart(12, "0")}${String(count).padStart(14, "A")}`;
    },
    emit(session, type, properties) {
      const directory = sessions.get(session)?.directory ?? "";
      const data = { sessionID: session, ...properties };
      bus.emit(directory, { type, properties: data });
      // Kilo says what it stores a second time, on the same stream.
      if (!isKilo || !DURABLE.test(type)) return;
      bus.emit(directory, { type: "sync", syncEvent: { type: `${type}.1`, aggregateID: session, data } });
    },
    setStatus(session, next) {
      if (next.type === "idle") status.delete(session);
      else status.set(session, next);
      world.emit(session, "session.status", { status: next });
    },
    idle(session) {
      world.setStatus(session, { type: "idle" });
      world.emit(session, "session.idle", {});
    },
    create(directory, parent) {
      const made: StoredSession = { id: world.newId("ses"), directory, messages: [] };
      if (parent !== undefined) made.parentID = parent;
      sessions.set(made.id, made);
      world.save();
      return made;
    },
    message(session, info) {
      const full = { sessionID: session, ...info };
      const messages = sessions.get(session)?.messages ?? [];
      const at = messages.findIndex((stored) => stored.info.id === info.id);
      if (at < 0) messages.push({ info: full, parts: [] });
      else messages[at] = { info: full, parts: messages[at]?.parts ?? [] };
      world.save();
      world.emit(session, "message.updated", { info: full });
    },
    part(session, message, part) {
      const full = { ...part, sessionID: session, messageID: message };
      const parts = sessions.get(session)?.messages.find(({ info }) => info.id === message)?.parts ?? [];
      const at = parts.findIndex(({ id }) => id === part.id);
      if (at < 0) parts.push(full);
      else parts[at] = full;
      world.save();
      world.emit(session, "message.part.updated", { part: full, time: Date.now() });
    },
    save: () => writeFileSync(file, JSON.stringify([...sessions.values()])),
  };
  return world;
}
