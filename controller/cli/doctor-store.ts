/** What `holdfast doctor` finds at the store: who may read it, the space, whether it can be owned, its sandboxes. */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { asHoldfastError, type HoldfastError } from "../../protocol/errors.ts";
import { openDatabase } from "../store/sqlite.ts";
import type { Check } from "./doctor.ts";
import type { Environment } from "./environment.ts";
import { readStore } from "./read-store.ts";

/** Free space below which the store is in danger. */
const FREE_BYTES = 1024 ** 3;

export async function storeChecks(directory: string): Promise<Check[]> {
  if (!existsSync(directory)) return [comingStore(directory)];
  const checks: Check[] = [];
  if ((statSync(directory).mode & 0o077) !== 0) {
    const detail = `${directory} can be read by others`;
    checks.push({ name: "store", state: "warning", detail, fix: `chmod 700 ${directory}` });
  }
  const space = await statfs(directory);
  const freeBytes = space.bavail * space.bsize;
  if (freeBytes < FREE_BYTES) {
    const detail = `${Math.round(freeBytes / 1e6)} MB free at the store`;
    checks.push({ name: "disk", state: "failed", detail, fix: "free some space; stop sandboxes" });
  }
  return [...checks, ownedStore(directory)];
}

/** There is none yet: can it be made? */
function comingStore(directory: string): Check {
  let above = dirname(directory);
  while (!existsSync(above) && above !== dirname(above)) above = dirname(above);
  try {
    if (!statSync(above).isDirectory()) throw new TypeError(`${above} is no folder`);
    accessSync(above, constants.W_OK | constants.X_OK);
    return { name: "store", state: "ok", detail: `${directory} will be made`, fix: "" };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const detail = `${directory} can't be made: ${why}`;
    return { name: "store", state: "failed", detail, fix: "name another folder with --store" };
  }
}

function ownedStore(directory: string): Check {
  try {
    openDatabase({ directory }).close();
    return { name: "store", state: "ok", detail: `${directory} can be owned and written`, fix: "" };
  } catch (error) {
    const fault = asHoldfastError(error);
    const { code, message, cause } = fault;
    // A controller that works is no fault: everything that only looks works beside it.
    if (code === "STORE_OWNED") return { name: "store", state: "ok", detail: message, fix: "" };
    const why = cause instanceof Error && !message.includes(cause.message) ? ` (${cause.message})` : "";
    return { name: "store", state: "failed", detail: `${message}${why}`, fix: fixFor(fault, directory) };
  }
}

/** The catalogue's next step says "run doctor" for some: that is where we are. */
function fixFor({ code, next }: HoldfastError, directory: string): string {
  if (code !== "STORE_ERROR") return next;
  return `check the disk and the rights of ${directory}; bring holdfast.db back from a backup, or use another --store`;
}

/** Sandboxes that may take no turn. */
export function sandboxChecks(environment: Environment, command: (words: string) => string): Check[] {
  try {
    const unready = readStore(environment, (store) =>
      store.sandboxes().filter((row) => row.unready !== null && row.wanted !== "removed"),
    );
    return (unready ?? []).map(({ id, unready: why }) => ({
      name: "sandbox",
      state: "failed",
      detail: `${id} is not ready: ${why}`,
      fix: `${command(`sandbox rm ${id}`)}, or rebuild the image`,
    }));
  } catch {
    // The store itself is the fault, which the check of the store has said.
    return [];
  }
}
