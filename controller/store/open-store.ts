/** Opens a store: in a folder of this machine, or in a PostgreSQL database that several hosts may share. */
import { mkdirSync } from "node:fs";
import { HoldfastError } from "../../protocol/errors.ts";
import { createHosts, type Hosts } from "./postgres/hosts.ts";
import { openPostgres, type PostgresOptions } from "./postgres/open-postgres.ts";
import { createStore, type StoreSettings } from "./sql-store.ts";
import { type Database, type DatabaseOptions, openDatabase } from "./sqlite.ts";
import type { Store } from "./store.ts";

export type StorePlace = DatabaseOptions | PostgresOptions;
export type StoreOptions = StorePlace & StoreSettings;

/** Where a host's options put its store; makes the folder that it needs in both cases. Throws REQUEST_INVALID. */
export function storePlace(options: {
  directory: string;
  storeUrl?: string | { variable: string };
  hostId?: string;
  variables?: Readonly<NodeJS.ProcessEnv>;
}): StorePlace {
  const { directory, storeUrl, hostId, variables = process.env } = options;
  if (storeUrl === undefined) return { directory };
  const url = typeof storeUrl === "string" ? storeUrl : variables[storeUrl.variable];
  if (url === undefined || url === "")
    throw new HoldfastError(
      "REQUEST_INVALID",
      typeof storeUrl === "string"
        ? "the store's URL is empty"
        : `the variable ${storeUrl.variable}, which is to hold the store's URL, is not set`,
    );
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return { url, ...(hostId === undefined ? {} : { host: hostId }) };
}

/** Throws STORE_OWNED, STORE_NEWER, STORE_ERROR, and REQUEST_INVALID for a URL that is none of a PostgreSQL database. */
export function openStore(options: StoreOptions): Store {
  if (!("url" in options)) {
    const db = openDatabase(options);
    return closing(db, () => createStore(db, options, null));
  }
  const db = openPostgres(options);
  return closing(db, () => createStore(db, options, createHosts(db, options.nowAt)));
}

/** For whoever moves hosts without being one. Throws STORE_ERROR when nobody has opened a store there yet. */
export function openHosts(url: string): { hosts: Hosts; close(): void } {
  const db = openPostgres({ url, role: "operator" });
  return { hosts: createHosts(db, () => Date.now()), close: () => db.close() };
}

function closing(db: Database, make: () => Store): Store {
  try {
    return make();
  } catch (error) {
    db.close();
    throw error;
  }
}
