/**
 * The launch configurations that a member's CLI was started with, kept as the bytes that were written first, under
 * their digest. They are compared and handed out, never encoded anew: a version that writes other fields, or the same in
 * another order, makes a new revision and leaves the old one valid.
 */
import { createHash } from "node:crypto";
import * as z from "zod/mini";
import { HoldfastError } from "../../protocol/errors.ts";
import type { TurnRow } from "./records.ts";
import type { Database } from "./sqlite.ts";

/** Of one member. Beyond: LAUNCH_LIMIT. A member's turns name their revisions, so none is dropped. */
export const REVISIONS = 128;
export const REVISION_BYTES: number = 1024 * 1024;

export interface LaunchRevision {
  sha256: string;
  /** JSON of the version that wrote it. */
  bytes: Uint8Array;
  firstUsedAt: number;
}

const Row = z.object({ sha256: z.string(), bytes: z.instanceof(Uint8Array), first_used_at: z.number() });
const Sum = z.object({ revisions: z.number(), bytes: z.number() });

/**
 * Keeps the member's revision, if it is a new one, and returns its digest. Inside a transaction.
 * Throws STORE_DAMAGED when other bytes are kept under the digest, LAUNCH_LIMIT when there are too many.
 */
function keepRevision(db: Database, member: string, bytes: Uint8Array, at: number): string {
  const sha256 = digestOf(bytes);
  const known = readRevision(db, member, sha256);
  if (known !== null) return sha256;
  const sum = "SELECT count(*) AS revisions, coalesce(sum(length(bytes)), 0) AS bytes FROM launch_revisions";
  const kept = db.row(Sum, `${sum} WHERE member = ?`, member) ?? { revisions: 0, bytes: 0 };
  if (kept.revisions >= REVISIONS || kept.bytes + bytes.length > REVISION_BYTES) {
    throw new HoldfastError(
      "LAUNCH_LIMIT",
      `${kept.revisions} launch configurations with ${kept.bytes} bytes are kept, the limits are ${REVISIONS} and ${REVISION_BYTES}`,
    );
  }
  db.run("INSERT INTO launch_revisions VALUES (?, ?, ?, ?)", member, sha256, bytes, at);
  return sha256;
}

/** Keeps what the turn is launched with, and how long it waited for that. Inside a transaction. Throws as above. */
export function noteLaunch(
  db: Database,
  turn: TurnRow,
  bytes: Uint8Array,
  queuedMs: number,
  at: number,
): string {
  const sha256 = keepRevision(db, turn.member, bytes, at);
  db.run("UPDATE turns SET launch = ?, queued_ms = ? WHERE id = ?", sha256, queuedMs, turn.id);
  return sha256;
}

/** Null when the member never had it. Throws STORE_DAMAGED when its bytes are not those that were written. */
export function readRevision(db: Database, member: string, sha256: string): LaunchRevision | null {
  const row = db.row(
    Row,
    "SELECT sha256, bytes, first_used_at FROM launch_revisions WHERE member = ? AND sha256 = ?",
    member,
    sha256,
  );
  return row === null ? null : checked(row);
}

/** All of the member's, oldest first. Throws STORE_DAMAGED. */
export function readRevisions(db: Database, member: string): LaunchRevision[] {
  return db
    .rows(
      Row,
      "SELECT sha256, bytes, first_used_at FROM launch_revisions WHERE member = ? ORDER BY first_used_at, sha256",
      member,
    )
    .map(checked);
}

function checked({ sha256, bytes, first_used_at }: z.infer<typeof Row>): LaunchRevision {
  if (digestOf(bytes) === sha256) return { sha256, bytes, firstUsedAt: first_used_at };
  throw new HoldfastError("STORE_DAMAGED", `the launch configuration ${sha256} is not what was written`);
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
