/**
 * What went wrong between the store and its PostgreSQL server, and what follows from it: whether a step may be tried
 * again, and what the caller is told. Pure. No message has an address with a password in it.
 */
import { HoldfastError } from "../../../protocol/errors.ts";

/**
 * `sql`: the server refused the statement, and the connection is as good as before. `lost`: the connection went away.
 * `absent`: there was none. `timeout`: no answer within the limit; the connection was thrown away. `fenced`: another
 * controller has the host. `gone`: the connection was lost before the statement was
 * sent, and a fresh one is on its way.
 */
export type FaultKind = "sql" | "lost" | "gone" | "absent" | "timeout" | "fenced";

export interface Fault {
  kind: FaultKind;
  /** SQLSTATE, or a code of the system (`ECONNREFUSED`); empty when there is none. */
  code: string;
  message: string;
}

/** How long a step waits for a fresh connection in place of the one that it lost, ms. */
export const RECONNECT_MS = 1000;

/** What a step was at when it failed. Before its commit was sent nothing of it can have stayed. */
export type Phase = "before commit" | "commit";

/** Carries a fault out of a step. */
export class PostgresFault extends Error {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.message);
    this.fault = fault;
  }
}

/** A clash that another try may not meet; the other side of a duplicate key is there by then, and the step sees it. */
const CLASHES: ReadonlySet<string> = new Set(["40001", "40P01", "23505"]);
/** The connection ends behind these, though they come as answers: shut down, gone idle in a transaction, and the like. */
const ENDS_CONNECTION = /^(57P0[1-5]|25P0[34]|08...)$/;
const DISK_FULL = "53100";

/** The driver's word for a server that asks for a password when it was given none. */
const NO_PASSWORD = /client password must be a/;

/** What a driver's rejection means. */
export function faultOf(error: unknown): Fault {
  const { code, message, severity } = (error ?? {}) as {
    code?: unknown;
    message?: unknown;
    severity?: unknown;
  };
  const name = typeof code === "string" ? code : "";
  if (typeof message === "string" && NO_PASSWORD.test(message))
    return { kind: "lost", code: "28P01", message: "the server asks for a password, and none was given" };
  const text = typeof message === "string" && message !== "" ? message : name || "no reason was given";
  const isAnswer = typeof severity === "string";
  const isLost = !isAnswer || severity === "FATAL" || severity === "PANIC" || ENDS_CONNECTION.test(name);
  return { kind: isLost ? "lost" : "sql", code: name, message: text };
}

/** `again`: at once. `reconnect`: on a fresh connection. `no`: the caller is told. */
export function retryOf(fault: Fault, phase: Phase): "again" | "reconnect" | "no" {
  switch (fault.kind) {
    case "sql":
      // A commit that the server refuses is undone.
      return CLASHES.has(fault.code) ? "again" : "no";
    case "lost":
      return phase === "commit" ? "no" : "reconnect";
    case "gone":
      return "reconnect";
    case "absent":
    case "timeout":
    case "fenced":
      return "no";
  }
}

/** As the store's caller gets it. */
export function storeError(fault: Fault, what: string): HoldfastError {
  const cause = new Error(fault.code === "" ? fault.message : `${fault.code}: ${fault.message}`);
  if (fault.kind === "fenced") return new HoldfastError("FENCED", fault.message);
  if (fault.code === DISK_FULL)
    return new HoldfastError("DISK_FULL", `${what}: the server's disk is full`, { cause });
  return new HoldfastError("STORE_ERROR", `${what}: ${cause.message}`, { cause });
}

/** Why a store could not be opened, and what to do about it. */
export function openingError(fault: Fault, place: string): HoldfastError {
  const next = NEXT[fault.code];
  const message = next === undefined ? fault.message : `${fault.message}; ${next}`;
  return storeError({ ...fault, message }, `the store at ${place} can't be opened`);
}

const PASSWORD = "give the password by PGPASSWORD, a .pgpass file, or a URL that nobody else can read";
const ADDRESS = "is the server running, and the address right?";
const NEXT: Readonly<Record<string, string>> = {
  ECONNREFUSED: ADDRESS,
  ENOENT: ADDRESS,
  ENOTFOUND: ADDRESS,
  EAI_AGAIN: ADDRESS,
  ETIMEDOUT: ADDRESS,
  EHOSTUNREACH: ADDRESS,
  "28P01": PASSWORD,
  "28000": "the server's pg_hba.conf does not let this user in",
  "3D000": "make the database first (createdb)",
  "42501": "the user needs the right to make a schema in this database, or to use the one that is there",
  "53300": "the server has no connection left: raise max_connections",
};

/** An address as it may be shown: without user and password, and without options. Null for what is no such URL. */
export function placeOf(url: string): string | null {
  const parsed = URL.parse(url);
  if (parsed === null || !/^postgres(ql)?:$/.test(parsed.protocol)) return null;
  const host = parsed.searchParams.get("host") ?? parsed.host;
  return `postgres://${host === "" ? "localhost" : host}${parsed.pathname}`;
}
