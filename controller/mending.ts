/** Mends what a crash left between a sandbox's record and its effect: the effect of what `reconcile.ts` decides. */
import { asHoldfastError, HoldfastError } from "../protocol/errors.ts";
import { reconcile } from "./reconcile.ts";
import type { PinnedBuild, SandboxDriver } from "./sandboxes/sandbox.ts";
import type { Store } from "./store/store.ts";

/**
 * Removes containers of this store that no record wants any more; those that it does not know are told and left alone.
 * Throws what the driver throws: an engine that does not answer is no reason not to open.
 */
export async function mendSandboxes(
  store: Pick<Store, "id" | "sandboxes">,
  driver: Pick<SandboxDriver, "kind" | "list" | "remove">,
  onWarning: (what: string, detail: string) => void,
): Promise<void> {
  const rows = store.sandboxes();
  const { remove, strange } = reconcile(rows, await driver.list(store.id));
  for (const { sandboxId, containerId } of remove) {
    const row = rows.find(({ id }) => id === sandboxId);
    if (row === undefined) throw new HoldfastError("STORE_ERROR", `no record of the sandbox ${sandboxId}`);
    const { generation, directory } = row;
    await driver.remove({ storeId: store.id, sandboxId, generation, directory }, containerId);
  }
  for (const { sandboxId, containerId } of strange)
    onWarning(`a ${driver.kind} sandbox is not the store's`, `${sandboxId || "?"} ${containerId}`);
}

/** Mends every kind's, and returns the CLIs that its build has. An engine that can't be asked is told, and left out. */
export async function mendKinds(
  store: Pick<Store, "id" | "sandboxes">,
  drivers: ReadonlyArray<Pick<SandboxDriver, "kind" | "list" | "remove" | "pinned">>,
  onWarning: (what: string, detail: string) => void,
): Promise<PinnedBuild["clis"]> {
  const clis: Array<PinnedBuild["clis"][number]> = [];
  for (const driver of drivers) {
    const tell = (error: unknown) => onWarning(`${driver.kind} sandboxes`, asHoldfastError(error).message);
    await mendSandboxes(store, driver, onWarning).catch(tell);
    clis.push(...((await driver.pinned().catch(tell))?.clis ?? []));
  }
  return clis;
}
