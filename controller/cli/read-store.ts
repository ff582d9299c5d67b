/** A look at the store beside whoever owns it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../store/open-store.ts";
import { isMissing } from "../store/postgres/open-postgres.ts";
import { STORE_FILE } from "../store/sqlite.ts";
import type { Store } from "../store/store.ts";
import type { Environment } from "./environment.ts";

/** Looks at the store without owning it: works beside a controller that runs. Null when there is none yet. */
export function readStore<T>(environment: Environment, look: (store: Store) => T): T | null {
  const store = openToRead(environment);
  if (store === null) return null;
  try {
    return look(store);
  } finally {
    store.close();
  }
}

function openToRead({ storeDirectory: directory, storeUrl: url, hostId: host }: Environment): Store | null {
  if (url === null && !existsSync(join(directory, STORE_FILE))) return null;
  try {
    return openStore({
      ...(url === null ? { directory } : { url, ...(host === null ? {} : { host }) }),
      readOnly: true,
      nowAt: () => Date.now(),
      cliVersion: () => "unknown",
    });
  } catch (error) {
    if (url !== null && isMissing(error)) return null;
    throw error;
  }
}
