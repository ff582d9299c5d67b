import { expect, test } from "vitest";
import { reconcile } from "../../controller/reconcile.ts";
import type { SandboxRow } from "../../controller/store/records.ts";
import { CONTAINER } from "../support/samples.ts";

const row = (id: string, changes: Partial<SandboxRow> = {}): SandboxRow => ({
  id,
  kind: "docker",
  directory: `/store/s/${id}`,
  generation: 1,
  container: { ...CONTAINER, sandboxId: id, containerId: `c-${id}` },
  wanted: "running",
  unready: null,
  journal_id: null,
  applied: 0,
  created_at: 0,
  ...changes,
});
const place = (sandboxId: string, containerId = `c-${sandboxId}`, wasStarted = true) => ({
  sandboxId,
  containerId,
  wasStarted,
});

test("a place that the store knows and wants is left alone, running or stopped", () => {
  const rows = [row("a"), row("b", { wanted: "stopped" })];
  expect(reconcile(rows, [place("a"), place("b")])).toEqual({ remove: [], strange: [] });
});

test("a removal that a crash cut short is finished", () => {
  expect(reconcile([row("a", { wanted: "removed" })], [place("a")])).toEqual({
    remove: [place("a")],
    strange: [],
  });
});

test("a container that was made and neither bound nor started is removed: no turn ever ran in it", () => {
  const fresh = place("a", "c-a", false);
  expect(reconcile([row("a", { container: null })], [fresh])).toEqual({ remove: [fresh], strange: [] });
});

test("one that was started and is not bound is kept: the store was restored from a backup, the conversations are there", () => {
  const rows = [row("a", { container: null })];
  expect(reconcile(rows, [place("a")])).toEqual({ remove: [], strange: [place("a")] });
});

test("another container under the name of a sandbox is said and never touched, a removed sandbox's too", () => {
  const other = place("a", "somebody-elses");
  expect(reconcile([row("a")], [other])).toEqual({ remove: [], strange: [other] });
  expect(reconcile([row("a", { wanted: "removed" })], [other])).toEqual({ remove: [], strange: [other] });
});

test("a place of an unknown sandbox is said and never touched", () => {
  expect(reconcile([], [place("ghost")])).toEqual({ remove: [], strange: [place("ghost")] });
});

test("a sandbox without a place is nobody's business here: its turns say LOST", () => {
  expect(reconcile([row("a")], [])).toEqual({ remove: [], strange: [] });
});
