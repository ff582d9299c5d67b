import { expect, test } from "vitest";
import type { SandboxLink } from "../../controller/sandbox-link.ts";
import { createSandboxSight } from "../../controller/sandbox-sight.ts";
import type { SandboxState } from "../../controller/sandboxes/sandbox.ts";
import type { SandboxRow } from "../../controller/store/records.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { RESULTS } from "../support/samples.ts";
import { simpleRig } from "./store/rig.ts";

const STATUS = RESULTS["bridge.status"];
/** A look and what follows from it measures nothing; the probe's own tests are beside it. */
const UNASKED = {
  hasImage: true,
  pinned: () => Promise.reject(new HoldfastError("IMAGE_MISSING")),
  measure: () => Promise.reject(new HoldfastError("ENGINE_MISSING")),
};

/** A sandbox with a container that is in the state, and a bridge that answers as given when it has a link. */
function scene(given: { state?: SandboxState; answer?: () => Promise<unknown>; isUp?: boolean } = {}) {
  const { store } = simpleRig();
  const asked: string[] = [];
  const { state = "running", answer = async () => STATUS, isUp = true } = given;
  const link = {
    isUp: () => isUp,
    silentMs: () => 7,
    request(method: string) {
      asked.push(method);
      return answer();
    },
  } as unknown as SandboxLink;
  const sight = createSandboxSight({
    id: "box",
    store,
    driver: {
      ...UNASKED,
      async state() {
        asked.push("state");
        return state;
      },
    },
    row: () => store.sandbox("box") as SandboxRow,
    specOf: ({ id, generation, directory }) => ({ storeId: store.id, sandboxId: id, generation, directory }),
    async attach() {
      asked.push("attach");
    },
    link: () => link,
    async connected(limitMs) {
      if (!isUp) throw new HoldfastError("BRIDGE_GONE", `not within ${limitMs}`);
      return link;
    },
  });
  return { store, sight, asked };
}

test("a look asks the bridge of a sandbox that runs, and of another one says where it is", async () => {
  const running = scene();
  expect(await running.sight.look()).toEqual({ place: "running", status: STATUS, why: "" });
  expect(running.asked).toEqual(["state", "attach", "bridge.status"]);
  for (const state of ["stopped", "missing"] as const) {
    const { sight, asked } = scene({ state });
    expect(await sight.look()).toEqual({ place: state, status: null, why: `the sandbox is ${state}` });
    expect(asked).toEqual(["state"]);
  }
});

test("a look never throws: what hinders it is its reason", async () => {
  const silent = scene({ isUp: false });
  expect(await silent.sight.look()).toMatchObject({
    place: "running",
    status: null,
    why: expect.stringContaining("not within"),
  });
  const { store, sight, asked } = scene();
  store.createSandbox({ id: "new", kind: "docker", directory: "/d/new" });
  const fresh = createSandboxSight({
    id: "new",
    store,
    driver: { ...UNASKED, state: async () => "running" },
    row: () => store.sandbox("new") as SandboxRow,
    specOf: () => ({ storeId: store.id, sandboxId: "new", generation: 1, directory: "/d/new" }),
    attach: async () => undefined,
    link: () => null,
    connected: () => Promise.reject(new HoldfastError("BRIDGE_GONE")),
  });
  expect(await fresh.look()).toMatchObject({ place: "stopped", status: null });
  expect(await fresh.residents()).toEqual([]);
  expect(await fresh.retire("m-1")).toBe(true);
  expect([await sight.residents(), asked]).toEqual([STATUS.members, ["bridge.status"]]);
});

test("resident processes are the bridge's word; without it none when it does not run, else nobody can say", async () => {
  expect(await scene().sight.residents()).toEqual(STATUS.members);
  expect(await scene({ isUp: false }).sight.residents()).toBeNull();
  for (const state of ["stopped", "missing"] as const)
    expect(await scene({ isUp: false, state }).sight.residents()).toEqual([]);
});

test("a process is retired by its bridge, unless it is in use; without a bridge it has ended when nothing runs", async () => {
  const { sight, asked } = scene({ answer: async () => ({}) });
  expect(await sight.retire("m-1")).toBe(true);
  expect(asked).toEqual(["member.retire"]);
  const failing = (code: "MEMBER_BUSY" | "LINK_CLOSED") =>
    scene({ answer: () => Promise.reject(new HoldfastError(code)) }).sight.retire("m-1");
  expect(await failing("MEMBER_BUSY")).toBe(false);
  await expect(failing("LINK_CLOSED")).rejects.toMatchObject({ code: "LINK_CLOSED" });
  expect(await scene({ isUp: false }).sight.retire("m-1")).toBe(false);
  expect(await scene({ isUp: false, state: "stopped" }).sight.retire("m-1")).toBe(true);
});

test("what a bridge is heard to say is asked of the link that is up, and of no other", async () => {
  expect(await scene({ isUp: false }).sight.heard()).toBeNull();
  const { sight, asked } = scene();
  expect(await sight.heard()).toMatchObject({ report: null, reasons: [expect.stringMatching(/image/)] });
  expect(asked).toEqual([]);
});

test("a probe whose facts can't be had says so, and never throws", async () => {
  expect(await scene().sight.probe()).toMatchObject({
    sandbox: "box",
    place: "unknown",
    reasons: [expect.stringMatching(/^it can't be looked at: .*image/)],
    report: null,
  });
});
