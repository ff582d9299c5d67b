/** Opens a store: in a folder of this machine, or in a PostgreSQL database that several hosts may share. */
import { openPostgres, type PostgresOptions } from "./postgres/open-postgres.ts";
import { createStore, type StoreSettings } from "./sql-store.ts";
import { type DatabaseOptions, openDatabase } from "./sqlite.ts";
import type { Store } from "./store.ts";

export type StorePlace = DatabaseOptions | PostgresOptions;
export type StoreOptions = StorePlace & StoreSettings;

/** Throws STORE_OWNED, STORE_NEWER, STORE_ERROR, and REQUEST_INVALID for a URL that is none of a PostgreSQL database. */
export function openStore(options: StoreOptions): Store {
  const db = "url" in options ? openPostgres(options) : openDatabase(options);
  try {
    return createStore(db, options);
  } catch (error) {
    db.close();
    throw error;
  }
}
