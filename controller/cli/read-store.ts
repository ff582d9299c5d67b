/** A look at the store beside whoever owns it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../store/open-store.ts";
import { STORE_FILE } from "../store/sqlite.ts";
import type { Store } from "../store/store.ts";
import type { Environment } from "./environment.ts";

/** Looks at the store without owning it: works beside a controller that runs. Null when there is none yet. */
export function readStore<T>(environment: Environment, look: (store: Store) => T): T | null {
  if (!existsSync(join(environment.storeDirectory, STORE_FILE))) return null;
  const store = openStore({
    directory: environment.storeDirectory,
    readOnly: true,
    nowAt: () => Date.now(),
    cliVersion: () => "unknown",
  });
  try {
    return look(store);
  } finally {
    store.close();
  }
}
