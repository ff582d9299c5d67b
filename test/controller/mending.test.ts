import { expect, test } from "vitest";
import { mendKinds, mendSandboxes } from "../../controller/mending.ts";
import type { SandboxRow } from "../../controller/store/records.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { CONTAINER } from "../support/samples.ts";

const row = (id: string, wanted: SandboxRow["wanted"]): SandboxRow => ({
  id,
  kind: "docker",
  directory: `/store/s/${id}`,
  generation: 3,
  container: { ...CONTAINER, sandboxId: id, containerId: `c-${id}` },
  wanted,
  unready: null,
  journal_id: null,
  applied: 0,
  created_at: 0,
});

test("what no record wants is removed by its own id, what is not the store's is told, and all else is left alone", async () => {
  const calls: unknown[] = [];
  const told: string[] = [];
  const place = (sandboxId: string) => ({ sandboxId, containerId: `c-${sandboxId}`, wasStarted: true });
  await mendSandboxes(
    { id: "store-1", sandboxes: () => [row("kept", "running"), row("gone", "removed")] },
    {
      kind: "docker",
      list: async (store) => {
        calls.push(store);
        return [place("kept"), place("gone"), place("other")];
      },
      remove: async (...asked) => void calls.push(asked),
    },
    (what, detail) => told.push(`${what}: ${detail}`),
  );
  const removed = { storeId: "store-1", sandboxId: "gone", generation: 3, directory: "/store/s/gone" };
  expect(calls).toEqual(["store-1", [removed, "c-gone"]]);
  expect(told).toEqual(["a docker sandbox is not the store's: other c-other"]);
});

test("an engine that does not answer is the caller's to judge", async () => {
  const engine = {
    kind: "docker" as const,
    list: () => Promise.reject(new Error("no engine")),
    remove: async () => undefined,
  };
  await expect(mendSandboxes({ id: "s", sandboxes: () => [] }, engine, () => undefined)).rejects.toThrow(
    "no engine",
  );
});

test("each kind is mended, and an engine that can't be asked is told and keeps nobody from the others", async () => {
  const told: string[] = [];
  const gone = () => Promise.reject(new HoldfastError("ENGINE_MISSING", "no answer"));
  const pinned = {
    helperSha256: "",
    imageId: null,
    manifestSha256: null,
    clis: [{ cli: "pi", version: "1" }],
    environment: [],
  };
  const clis = await mendKinds(
    { id: "store-1", sandboxes: () => [] },
    [
      { kind: "docker", list: gone, remove: gone, pinned: gone },
      { kind: "process", list: async () => [], remove: gone, pinned: async () => pinned },
    ],
    (what, detail) => told.push(`${what}: ${detail}`),
  );
  expect(clis).toEqual([{ cli: "pi", version: "1" }]);
  expect(told).toEqual(["docker sandboxes: no answer", "docker sandboxes: no answer"]);
});
