import { expect, test } from "vitest";
import { launchOf } from "../../controller/admission.ts";
import { outlookOf } from "../../controller/outlook.ts";
import type { Sight } from "../../controller/sandbox-sight.ts";
import type { PinnedBuild } from "../../controller/sandboxes/sandbox.ts";
import type { MemberRow, SandboxRow } from "../../controller/store/records.ts";
import { BUILD } from "../support/fake-sandbox.ts";
import { CONTAINER, DIGEST_B, SETTLEMENT } from "../support/samples.ts";
import { ended, session, simpleRig } from "./store/rig.ts";

/** A member with one settled turn, of this build. */
function retained() {
  const rig = simpleRig();
  rig.store.bindContainer("box", { ...CONTAINER, sandboxId: "box", imageId: BUILD.imageId ?? "" });
  rig.admit("t-1");
  rig.apply([ended("t-1", { session: session("ses_1") })]);
  const outlook = (
    changes: { sight?: Sight | null; pinned?: PinnedBuild | null; sandbox?: Partial<SandboxRow> } = {},
  ) => {
    const sandbox = { ...(rig.store.sandbox("box") as SandboxRow), ...changes.sandbox };
    const member = rig.store.member("m-1") as MemberRow;
    const { sight = running(), pinned = BUILD } = changes;
    return outlookOf({ store: rig.store, member, sandbox, sight, pinned });
  };
  const { launch, launchParts } = launchOf(rig.store.member("m-1") as MemberRow, BUILD);
  const entry = {
    member: "m-1",
    cli: "opencode" as const,
    processGeneration: 1,
    subscription: 1,
    activeTurn: null,
    nativeId: "ses_1",
    tookLastTurn: true,
    launchDigest: launch.digest,
    launchParts,
    rssBytes: 350_000_000,
  };
  const running = (changes: Partial<typeof entry> = {}): Sight => ({
    place: "running",
    status: { members: [{ ...entry, ...changes }], openTurns: [], numbers: [] },
    why: "",
  });
  return { rig, outlook, running, launchParts };
}

test("a process that the bridge names is the member's own, and compared with the launch of this build", () => {
  const { outlook, running, launchParts } = retained();
  expect(outlook()).toMatchObject({ status: "LIVE", blocked: null });
  expect(outlook({ sight: running({ member: "m-2" }) })).toMatchObject({
    status: "RESTORED",
    reason: "no process is resident",
  });
  const other = running({
    launchDigest: DIGEST_B,
    launchParts: { ...launchParts, policy: DIGEST_B },
  });
  expect(outlook({ sight: other })).toMatchObject({
    reason: "the permission policy changed",
    launchChanges: ["policy"],
  });
});

test("what does not run holds no process; what can't be asked may hold one", () => {
  const { outlook } = retained();
  const sight = (place: Sight["place"]): Sight => ({ place, status: null, why: "no answer" });
  expect(outlook({ sight: sight("stopped") })).toMatchObject({ status: "RESTORED" });
  expect(outlook({ sight: sight("missing") })).toMatchObject({ status: "LOST" });
  for (const place of ["running", "unknown"] as const)
    expect(outlook({ sight: sight(place) })).toMatchObject({
      status: null,
      reason: expect.stringMatching(/^no answer: LIVE/),
    });
  expect(outlook({ sight: null })).toMatchObject({ status: null });
});

test("a sandbox that was removed is gone, whatever its record says", () => {
  const { outlook } = retained();
  expect(outlook({ sandbox: { wanted: "removed" } })).toMatchObject({
    status: "LOST",
    reason: "the container is gone",
  });
});

test("a sandbox of another image or helper is said to be refused", () => {
  const { outlook } = retained();
  expect(outlook({ pinned: { ...BUILD, imageId: "sha256:newer" } }).blocked?.detail).toContain(
    "another image",
  );
  expect(outlook({ pinned: { ...BUILD, helperSha256: DIGEST_B } }).blocked?.detail).toContain(
    "another helper",
  );
  expect(outlook({ pinned: null })).toMatchObject({ status: "LIVE", blocked: null });
  expect(outlook({ pinned: { ...BUILD, clis: [] } })).toMatchObject({ status: "LIVE" });
});

test("an open turn, and an unknown one without a note, are said to refuse another", () => {
  const { rig, outlook } = retained();
  rig.admit("t-2");
  expect(outlook().blocked).toMatchObject({ code: "MEMBER_BUSY" });
  rig.store.end("t-2", { ...SETTLEMENT, outcome: "unknown", settled: false });
  expect(outlook()).toMatchObject({
    status: "RESTORED",
    reason: "turn t-2 is unknown",
    blocked: { code: "INSPECTION_NEEDED" },
  });
  rig.store.recordInspection("t-2", "seen");
  expect(outlook().blocked).toBeNull();
});
