/**
 * The store's layout, as numbered steps. A step is never changed once released; a new one is added. `user_version` of
 * the database names the last step that was applied.
 */
import type { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";

export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  INSERT INTO meta VALUES ('fence', '0'), ('id', lower(hex(randomblob(16))));

  CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    directory TEXT NOT NULL,
    generation INTEGER NOT NULL,
    container TEXT,                  -- ContainerIdentity as JSON; null until it was made
    wanted TEXT NOT NULL,            -- running | stopped | removed
    unready TEXT,                    -- why it may take no turn, or null
    journal_id TEXT,                 -- of the bridge's journal that was followed last
    applied INTEGER NOT NULL,        -- last event of that journal that took effect here
    created_at REAL NOT NULL
  ) STRICT;

  CREATE TABLE members (
    id TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL REFERENCES sandboxes(id),
    cli TEXT NOT NULL,
    options TEXT NOT NULL,           -- MemberOptions as JSON
    submissions INTEGER NOT NULL,    -- numbers given so far
    settled_turns INTEGER NOT NULL,
    locator TEXT,                    -- Locator as JSON; null until a turn has settled
    pending_locator TEXT,            -- settled, and its id not verified yet
    created_at REAL NOT NULL
  ) STRICT;
  CREATE INDEX members_by_sandbox ON members(sandbox);

  CREATE TABLE locator_history (
    member TEXT NOT NULL REFERENCES members(id),
    settled_turns INTEGER NOT NULL,
    locator TEXT NOT NULL,
    at REAL NOT NULL
  ) STRICT;
  CREATE INDEX locator_history_by_member ON locator_history(member, settled_turns);

  -- A native id, candidates included, belongs to one member only.
  CREATE TABLE native_ids (
    sandbox TEXT NOT NULL,
    native_id TEXT NOT NULL,
    member TEXT NOT NULL REFERENCES members(id),
    PRIMARY KEY (sandbox, native_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    member TEXT NOT NULL REFERENCES members(id),
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    text_sha256 TEXT NOT NULL,
    text_bytes INTEGER NOT NULL,
    settlement TEXT,                 -- Settlement as JSON, once it has ended
    submitted_at REAL NOT NULL,
    ended_at REAL,
    UNIQUE (member, number)
  ) STRICT;
  -- Turns that may still move: few, however many a member has had.
  CREATE INDEX open_turns ON turns(member) WHERE ended_at IS NULL;

  CREATE TABLE turn_events (
    turn TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (turn, seq)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE attestations (
    sandbox TEXT NOT NULL,
    at REAL NOT NULL,
    reasons TEXT NOT NULL            -- JSON list; empty means ready
  ) STRICT;
  CREATE INDEX attestations_by_sandbox ON attestations(sandbox, at);

  CREATE TABLE audit (at REAL NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
  `,
  `
  -- Why the member's next turn may not be LIVE, or null: a turn of it is unknown.
  ALTER TABLE members ADD COLUMN must_prove TEXT;
  CREATE INDEX unknown_turns ON turns(member) WHERE state = 'unknown';
  UPDATE members SET must_prove = 'a turn before it is unknown'
    WHERE id IN (SELECT member FROM turns WHERE state = 'unknown');
  -- What somebody who has looked at an unknown turn wrote down.
  CREATE TABLE inspections (
    turn TEXT PRIMARY KEY REFERENCES turns(id),
    at REAL NOT NULL,
    note TEXT NOT NULL
  ) STRICT;
  `,
  `
  -- What a member's CLI did by itself, with no turn of ours: the newest of each member.
  CREATE TABLE member_events (
    id INTEGER PRIMARY KEY,
    member TEXT NOT NULL REFERENCES members(id),
    at REAL NOT NULL,
    event TEXT NOT NULL
  ) STRICT;
  CREATE INDEX member_events_by_member ON member_events(member, id);
  `,
  `
  -- What a member's CLI was launched with: the very bytes of which the digest was made, whatever wrote them. They are
  -- never encoded anew, so a later version can't make them another revision.
  CREATE TABLE launch_revisions (
    member TEXT NOT NULL REFERENCES members(id),
    sha256 TEXT NOT NULL,
    bytes BLOB NOT NULL,
    first_used_at REAL NOT NULL,
    PRIMARY KEY (member, sha256)
  ) STRICT, WITHOUT ROWID;
  -- Digest of the turn's revision; null before its launch, and for turns of earlier layouts.
  ALTER TABLE turns ADD COLUMN launch TEXT;
  `,
  `
  -- CLI processes that are resident now, as their bridges told.
  CREATE TABLE residents (
    member TEXT PRIMARY KEY REFERENCES members(id),
    sandbox TEXT NOT NULL REFERENCES sandboxes(id),
    generation INTEGER NOT NULL,
    since REAL NOT NULL,
    used INTEGER NOT NULL,           -- order of last use
    used_at REAL NOT NULL,
    rss_bytes INTEGER
  ) STRICT, WITHOUT ROWID;
  -- How long the turn waited for its start; null before its launch, and for turns of earlier layouts.
  ALTER TABLE turns ADD COLUMN queued_ms REAL;
  `,
  `
  -- Members that were made as a native fork of another one.
  CREATE TABLE forks (
    member TEXT PRIMARY KEY REFERENCES members(id),
    key TEXT NOT NULL UNIQUE,
    parent TEXT NOT NULL REFERENCES members(id),
    state TEXT NOT NULL,             -- prepared | materialized | ready | failed
    source TEXT NOT NULL,            -- the parent's Locator as JSON
    awaits_turn INTEGER NOT NULL,    -- 1: copied, and made by the CLI with the first turn
    session TEXT,                    -- ForkedSession as JSON, once the CLI has made it
    error TEXT,                      -- WireError as JSON, of a failed one
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
  ) STRICT;
  `,
  `
  -- Calls of models through the relay, in the order of their ends.
  CREATE TABLE model_calls (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    sandbox TEXT NOT NULL,
    member TEXT,                     -- null: its token named none
    turn TEXT,                       -- null: no turn of ours was active
    call TEXT NOT NULL               -- ModelCall as JSON
  ) STRICT;
  CREATE INDEX model_calls_by_owner ON model_calls(sandbox, member, turn, seq);
  CREATE INDEX model_calls_by_member ON model_calls(member, seq) WHERE member IS NOT NULL;
  CREATE INDEX model_calls_by_turn ON model_calls(turn, seq) WHERE turn IS NOT NULL;
  -- What all calls of an owner add up to, those included that were too many to be kept one by one.
  CREATE TABLE call_sums (
    sandbox TEXT NOT NULL,
    member TEXT NOT NULL,            -- empty: none
    turn TEXT NOT NULL,              -- empty: none
    sums TEXT NOT NULL,              -- CallSums as JSON
    PRIMARY KEY (sandbox, member, turn)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX call_sums_by_member ON call_sums(member);
  CREATE INDEX call_sums_by_turn ON call_sums(turn);
  -- The last request of each chain, for the comparison with the next one.
  CREATE TABLE request_chains (
    key TEXT PRIMARY KEY,
    member TEXT NOT NULL,
    used INTEGER NOT NULL,           -- seq of its last call
    started_at REAL NOT NULL,
    digest TEXT NOT NULL             -- RequestDigest as JSON
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX request_chains_by_member ON request_chains(member, used);
  `,
  `
  -- The life of each sandbox's bridge that is followed, and where its journal stood when it was first heard of.
  CREATE TABLE bridge_lives (
    sandbox TEXT PRIMARY KEY REFERENCES sandboxes(id),
    epoch INTEGER NOT NULL,
    head INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- The process of each member that may ask the model, in that life.
  CREATE TABLE model_callers (
    member TEXT PRIMARY KEY REFERENCES members(id),
    generation INTEGER NOT NULL,
    has_ended INTEGER NOT NULL       -- 1: its token is revoked
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- How many tokens a member may use; none for a member without a limit.
  CREATE TABLE budgets (
    member TEXT PRIMARY KEY REFERENCES members(id),
    limit_tokens INTEGER NOT NULL,
    spent_tokens INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- What calls that run may take of it.
  CREATE TABLE reservations (
    call TEXT PRIMARY KEY,
    member TEXT NOT NULL REFERENCES members(id),
    tokens INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- What was estimated for the input of a call that runs; and of a chain's last request that, with what its provider counted.
  ALTER TABLE reservations ADD COLUMN estimate INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE request_chains ADD COLUMN estimate INTEGER;
  ALTER TABLE request_chains ADD COLUMN input INTEGER;
  `,
  `
  -- What the CLI states of a turn that has ended and may have reached it: Usage as JSON, beside a settlement that may
  -- hold megabytes of text.
  ALTER TABLE turns ADD COLUMN usage TEXT;
  UPDATE turns SET usage = json_extract(settlement, '$.usage')
    WHERE settlement IS NOT NULL AND json_extract(settlement, '$.outcome') NOT IN ('not_sent', 'refused');
  `,
];

/** For those who only look. Throws STORE_NEWER, or STORE_ERROR for a layout that its owner has to renew first. */
export function checkLayout(database: DatabaseSync): void {
  const layout = layoutOf(database, MIGRATIONS.length);
  if (layout < MIGRATIONS.length) {
    throw new HoldfastError(
      "STORE_ERROR",
      `the store has layout ${layout}, this version reads ${MIGRATIONS.length}`,
    );
  }
}

/** Brings the database to the newest layout. Throws STORE_NEWER for one that is ahead of this version. */
export function migrate(database: DatabaseSync, migrations: readonly string[] = MIGRATIONS): void {
  for (let step = layoutOf(database, migrations.length); step < migrations.length; step += 1) {
    database.exec("BEGIN IMMEDIATE");
    try {
      database.exec(migrations[step] ?? "");
      database.exec(`PRAGMA user_version = ${step + 1}`);
      database.exec("COMMIT");
    } catch (error) {
      // Some failures (a full disk) have ended the transaction already.
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
}

/** The database's layout. Throws STORE_NEWER for one that is ahead of this version. */
export function layoutOf(database: DatabaseSync, newest: number = MIGRATIONS.length): number {
  const { user_version: layout } = database.prepare("PRAGMA user_version").get() as { user_version: number };
  if (layout <= newest) return layout;
  throw new HoldfastError("STORE_NEWER", `the store has layout ${layout}, this version knows ${newest}`);
}
