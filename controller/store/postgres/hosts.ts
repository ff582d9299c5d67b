/**
 * Hosts that share a store, and which of them has which sandbox. Every time in here is the server's. What may follow what is
 * decided in `controller/hosts/`; here it is decided inside the transaction that records it.
 */
import * as z from "zod/mini";
import { HoldfastError } from "../../../protocol/errors.ts";
import { claimProblem } from "../../hosts/claim.ts";
import { checkHostMove, HOST_STATES, type HostState, hasLetGo } from "../../hosts/host-life.ts";
import { LEASE_MS } from "../../hosts/lease-clock.ts";
import { SERVER_NOW } from "./fence.ts";
import type { SharedDatabase } from "./transactions.ts";

const HostRow = z.object({
  id: z.string(),
  state: z.enum(HOST_STATES),
  /** Of its controller. */
  fence: z.number(),
  /** When it was heard last, epoch ms; null: never. */
  beat_at: z.nullable(z.number()),
  /** Until when it drives by its last renewal, epoch ms; null: never. */
  alive_until: z.nullable(z.number()),
  /** When it let go of its sandboxes; null while it has not. */
  ended_at: z.nullable(z.number()),
  sandboxes: z.number(),
  /** Since it was heard, by the server's clock; null: never. */
  silent_ms: z.nullable(z.number()),
  /** It was heard in time. */
  is_alive: z.boolean(),
});
type HostRow = z.infer<typeof HostRow>;

const PlacementRow = z.object({
  sandbox: z.string(),
  host: z.string(),
  fence: z.number(),
  /** The host that it was let go of for; null: it was not. */
  released_to: z.nullable(z.string()),
});
/** Where a sandbox lives. */
type Placement = z.infer<typeof PlacementRow>;

export interface Hosts {
  /** This host's id. */
  readonly id: string;
  /** By id. */
  list(): HostRow[];
  /** Throws HOST_UNKNOWN. */
  get(id: string): HostRow;
  /** Grants {@link LEASE_MS} more, and returns what this host is by now. Throws FENCED, HOST_ENDED. */
  renew(): HostState;
  /**
   * Moves a host. Throws HOST_UNKNOWN, HOST_ENDED, REQUEST_INVALID; HOST_ALIVE for the removal of one that was heard in time
   * and has not let go.
   */
  move(id: string, to: HostState): void;
  /** Null for a sandbox that no host has. */
  placement(sandbox: string): Placement | null;
  /** Lets go of a sandbox of this host for another one. Throws HOST_UNKNOWN, HOST_DRAINING, HOST_ENDED, FENCED. */
  release(sandbox: string, to: string): void;
  /**
   * Takes a sandbox over, with `step` in the same transaction, and returns its new fence. Throws FENCED, HOST_ALIVE,
   * HOST_DRAINING, HOST_ENDED, LEASE_ENDED; then nothing has changed.
   */
  claim(sandbox: string, seenFence: number, retainMs: number, step: (fence: number) => void): number;
}

const GRANT = `UPDATE hosts SET beat_at = ${SERVER_NOW}, alive_until = ${SERVER_NOW} + ${LEASE_MS} WHERE id = ?`;
const HOST = `SELECT h.*, (SELECT count(*) FROM leases l WHERE l.host = h.id)::int AS sandboxes, ${SERVER_NOW} - h.beat_at AS silent_ms,
  coalesce(h.alive_until > ${SERVER_NOW}, false) AS is_alive FROM hosts h`;

export function createHosts(db: SharedDatabase, nowAt: () => number): Hosts {
  const own = db.host ?? "";

  function audit(what: string, subject: string, detail: string): void {
    db.run("INSERT INTO audit VALUES (?, ?, ?, ?)", nowAt(), what, subject, detail);
  }

  function get(id: string): HostRow {
    const row = db.row(HostRow, `${HOST} WHERE h.id = ?`, id);
    if (row === null) throw new HoldfastError("HOST_UNKNOWN", `no host ${id}`);
    return row;
  }

  /** Inside a transaction: nobody else moves it until the end. */
  function lock(id: string): HostRow {
    db.row(z.object({ id: z.string() }), "SELECT id FROM hosts WHERE id = ? FOR UPDATE", id);
    return get(id);
  }

  const placement = (sandbox: string) =>
    db.row(PlacementRow, "SELECT * FROM leases WHERE sandbox = ?", sandbox);

  function lockedPlacement(sandbox: string): Placement {
    const found = db.row(PlacementRow, "SELECT * FROM leases WHERE sandbox = ? FOR UPDATE", sandbox);
    if (found === null) throw new HoldfastError("SANDBOX_UNKNOWN", `no host has the sandbox ${sandbox}`);
    return found;
  }

  const nextFence = () =>
    present(db.row(z.object({ fence: z.number() }), "SELECT nextval('fences') AS fence")).fence;
  const now = () => present(db.row(z.object({ now: z.number() }), `SELECT ${SERVER_NOW} AS now`)).now;

  return {
    id: own,
    get,
    placement,
    list: () => db.rows(HostRow, `${HOST} ORDER BY h.id`),
    renew: () =>
      db.write(null, () => {
        db.run(GRANT, own);
        return get(own).state;
      }),
    move(id, to) {
      db.writeOver(() => {
        const { state, is_alive: isAlive } = lock(id);
        if (state === to) return;
        checkHostMove(id, state, to);
        if (to === "removed" && isAlive && !hasLetGo(state))
          throw new HoldfastError("HOST_ALIVE", `host ${id} is ${state}, and was heard of in time`);
        // Whoever still drives for it finds another number than its own.
        const fence = to === "removed" ? nextFence() : null;
        db.run(
          `UPDATE hosts SET state = ?, fence = coalesce(?::bigint, fence), ended_at = CASE WHEN ?::int = 1 THEN coalesce(ended_at, ${SERVER_NOW}) END WHERE id = ?`,
          to,
          fence,
          hasLetGo(to) ? 1 : 0,
          id,
        );
        audit("host.move", id, `${state} -> ${to}`);
      });
    },
    release(sandbox, to) {
      db.write({ sandbox }, () => {
        const { state } = lock(to);
        if (to === own) throw new HoldfastError("REQUEST_INVALID", `sandbox ${sandbox} is on host ${to}`);
        if (state === "draining") throw new HoldfastError("HOST_DRAINING", `host ${to} takes no sandbox`);
        if (state !== "active") throw new HoldfastError("HOST_ENDED", `host ${to} is ${state}`);
        db.run("UPDATE leases SET released_to = ? WHERE sandbox = ?", to, sandbox);
        audit("sandbox.release", sandbox, to);
      });
    },
    claim(sandbox, seenFence, retainMs, step) {
      const fence = db.write(null, () => {
        const lease = lockedPlacement(sandbox);
        const holder = lock(lease.host);
        const problem = claimProblem({
          sandbox,
          lease,
          seenFence,
          holder: { state: holder.state, endedAt: holder.ended_at },
          releasedTo: lease.released_to,
          claimant: { id: own, state: get(own).state },
          nowAt: now(),
          retainMs,
        });
        if (problem !== null) throw problem;
        const next = nextFence();
        db.run(
          "UPDATE leases SET host = ?, fence = ?, released_to = NULL WHERE sandbox = ?",
          own,
          next,
          sandbox,
        );
        step(next);
        audit("sandbox.claim", sandbox, `${lease.host} -> ${own}, fence ${next}`);
        return next;
      });
      db.held(sandbox, fence);
      return fence;
    },
  };
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that must be there is not");
  return value;
}
