/**
 * One connection to the server at a time, made anew behind one that was lost, and told apart by number: a statement of
 * a transaction is never run on a connection that knows nothing of it. What is asked while there is none is refused.
 */
import pg from "pg";
import { type Fault, faultOf, PostgresFault, RECONNECT_MS } from "./faults.ts";
import { claimHost } from "./fence.ts";
import type { Answer, ConnectionOptions, Owner, Request, Row } from "./messages.ts";
import { prepareSession, type Session } from "./session.ts";

/** Between two tries to connect, ms; each waits twice as long as the one before, up to the last. */
const FIRST_PAUSE_MS = 20;
const LAST_PAUSE_MS = 2000;

export interface Connection {
  /** Never rejects. */
  ask(request: Request): Promise<Answer>;
  /** Throws the connection away, whatever it is at. */
  abandon(): void;
}

interface Live {
  client: pg.Client;
  session: Session;
  number: number;
}

const refused = (fault: Fault): Answer => ({ ok: false, fault });
const absent = (message: string, code = ""): Fault => ({ kind: "absent", code, message });

export function createConnection(options: ConnectionOptions): Connection {
  let live: Live | null = null;
  /** Of the one that was lost: a server may not have noticed yet, and keeps its lock. */
  let before: Session | null = null;
  let lastNumber = 0;
  let reason: Fault = absent("there is no connection yet");
  let owner: Owner | null = null;
  let isConnecting = false;
  /** Until when whoever asks may wait for the connection in place of a lost one; after a failed try nobody should. */
  let promisingUntil = 0;
  let isClosed = false;
  let isFenced = false;
  let names = 0;
  const namesOf = new Map<string, string>();
  const waiting = new Set<(isThere: boolean) => void>();

  function wake(isThere: boolean): void {
    for (const each of [...waiting]) each(isThere);
  }

  async function connect(): Promise<void> {
    const client = newClient(options);
    // A server may let us in and then say nothing: the driver's own limit ends with its greeting.
    const giveUp = setTimeout(() => client.connection.stream.destroy(), 2 * options.limitMs);
    try {
      // Before the first await: an error event that nobody hears would end the process.
      client.on("error", (error) => lose(client, faultOf(error)));
      client.on("end", () =>
        lose(client, { kind: "lost", code: "", message: "the server ended the connection" }),
      );
      await client.connect();
      const session = await prepareSession(client, options);
      if (owner !== null) await claimHost(client, { schema: options.schema, owner, before });
      if (isClosed) throw new PostgresFault(absent("the store is closed"));
      lastNumber += 1;
      live = { client, session, number: lastNumber };
      wake(true);
    } catch (error) {
      client.connection.stream.destroy();
      throw error;
    } finally {
      clearTimeout(giveUp);
    }
  }

  /** Until there is a connection, or there is to be none. */
  async function reconnect(): Promise<void> {
    if (isConnecting) return;
    isConnecting = true;
    for (let pauseMs = FIRST_PAUSE_MS; live === null && !isClosed && !isFenced; ) {
      try {
        await connect();
      } catch (error) {
        note(error);
        promisingUntil = 0;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
        pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS);
      }
    }
    isConnecting = false;
    wake(live !== null);
  }

  function note(error: unknown): void {
    const fault = error instanceof PostgresFault ? error.fault : faultOf(error);
    isFenced ||= fault.kind === "fenced";
    reason = fault.kind === "fenced" ? fault : { ...fault, kind: "absent" };
  }

  function lose(client: pg.Client, why: Fault): void {
    if (live?.client !== client) return;
    before = live.session;
    live = null;
    reason = absent(why.message, why.code);
    promisingUntil = performance.now() + RECONNECT_MS;
    client.connection.stream.destroy();
    if (!isClosed) void reconnect();
  }

  async function run(request: Extract<Request, { kind: "query" | "script" }>): Promise<Answer> {
    if (live === null) {
      const isWorthATry = request.on !== null || performance.now() < promisingUntil;
      return refused(isWorthATry && !isFenced ? { ...reason, kind: "gone" } : reason);
    }
    const { client, number } = live;
    if (request.on !== null && request.on !== number)
      return refused({ kind: "gone", code: "", message: "the connection was lost" });
    try {
      const result = await (request.kind === "script"
        ? client.query(request.sql)
        : client.query({ name: nameOf(request.sql), text: request.sql, values: request.values }));
      // Of several statements the driver gives one result each.
      const last = (Array.isArray(result) ? result.at(-1) : result) as pg.QueryResult<Row>;
      const { rows, rowCount, command } = last;
      return { ok: true, connection: number, rows, changes: rowCount ?? 0, command };
    } catch (error) {
      const fault = faultOf(error);
      if (fault.kind === "lost") lose(client, fault);
      return refused(fault);
    }
  }

  /** Statements are prepared once a connection, under a name of ours. */
  function nameOf(sql: string): string {
    const known = namesOf.get(sql);
    if (known !== undefined) return known;
    names += 1;
    const made = `s${names}`;
    namesOf.set(sql, made);
    return made;
  }

  async function first(limitMs: number): Promise<Answer> {
    if (live === null && lastNumber === 0) {
      try {
        await connect();
      } catch (error) {
        note(error);
      }
    } else if (live === null && !isFenced) await arrival(limitMs);
    return live === null
      ? refused(reason)
      : { ok: true, connection: live.number, rows: [], changes: 0, command: "CONNECT" };
  }

  async function arrival(limitMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const settle = () => {
        clearTimeout(timer);
        waiting.delete(settle);
        resolve();
      };
      const timer = setTimeout(settle, limitMs);
      waiting.add(settle);
    });
  }

  async function close(): Promise<Answer> {
    isClosed = true;
    const client = live?.client;
    live = null;
    await client?.end().catch(() => undefined);
    wake(false);
    return refused(absent("the store is closed"));
  }

  return {
    async ask(request) {
      switch (request.kind) {
        case "connect":
          return await first(request.limitMs);
        case "query":
        case "script":
          return await run(request);
        case "own":
          owner = request.owner;
          return { ok: true, connection: live?.number ?? 0, rows: [], changes: 0, command: "OWN" };
        case "close":
          return await close();
      }
    },
    abandon() {
      if (live !== null)
        lose(live.client, { kind: "lost", code: "", message: "the server did not answer in time" });
      promisingUntil = 0;
    },
  };
}

const INT8 = 20;
const NUMERIC = 1700;

/** Counts and sums are numbers here, as SQLite gives them; none of them comes near 2^53. */
function newClient({ url, limitMs }: ConnectionOptions): pg.Client {
  return new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: limitMs,
    application_name: "holdfast",
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: {
      getTypeParser: ((oid: number, format?: "text" | "binary") =>
        oid === INT8 || oid === NUMERIC
          ? Number
          : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  });
}
