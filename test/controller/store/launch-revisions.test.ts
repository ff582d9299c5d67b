import { expect, test } from "vitest";
import { launchOf, launchText } from "../../../controller/admission.ts";
import { REVISION_BYTES, REVISIONS } from "../../../controller/store/launch-revisions.ts";
import { BUILD } from "../../support/fake-sandbox.ts";
import { simpleRig } from "./rig.ts";

const bytesOf = (text: string) => Buffer.from(text);
const limit = expect.objectContaining({ code: "LAUNCH_LIMIT" });

function admitted() {
  const rig = simpleRig();
  rig.admit("t-1");
  return rig;
}

test("a turn names what it was launched with, and finds it by its digest, also after a restart", () => {
  const rig = admitted();
  const member = rig.store.member("m-1");
  if (member === null) throw new Error("no member");
  expect(rig.store.launchOf("t-1")).toBeNull();
  const sha256 = rig.store.noteLaunch("t-1", bytesOf(launchText(member, BUILD)), 0);
  expect(sha256).toBe(launchOf(member, BUILD).launch.digest);
  rig.reopen();
  expect(rig.store.turn("t-1")?.launch).toBe(sha256);
  const found = rig.store.launchOf("t-1");
  expect(JSON.parse(Buffer.from(found?.bytes ?? []).toString())).toEqual({
    image: BUILD.imageId,
    cliVersion: { cli: "opencode", version: "1.14.50" },
    model: member.options.model,
    configuration: { background: member.options.background },
    policy: member.options.permissions,
    environment: BUILD.environment,
  });
});

test("S15: the same launch is kept once, with the time of its first use; members have their own", () => {
  const rig = admitted();
  rig.member("m-2");
  rig.admit("t-2", "m-2");
  const first = rig.store.noteLaunch("t-1", bytesOf("one"), 0);
  expect(rig.store.noteLaunch("t-1", bytesOf("one"), 0)).toBe(first);
  rig.store.noteLaunch("t-1", bytesOf("two"), 0);
  rig.store.noteLaunch("t-2", bytesOf("one"), 0);
  expect(
    rig.store
      .launchesOf("m-1")
      .map(({ bytes }) => Buffer.from(bytes).toString())
      .sort(),
  ).toEqual(["one", "two"]);
  expect(rig.store.launchesOf("m-2")).toHaveLength(1);
  expect(rig.store.launchesOf("none")).toEqual([]);
});

test("S15: beyond the number that is kept a new one is refused; those that are kept go on", () => {
  const rig = admitted();
  for (let at = 0; at < REVISIONS; at += 1) rig.store.noteLaunch("t-1", bytesOf(`revision ${at}`), 0);
  const last = rig.store.turn("t-1")?.launch;
  expect(() => rig.store.noteLaunch("t-1", bytesOf("one more"), 0)).toThrow(limit);
  expect(rig.store.turn("t-1")?.launch).toBe(last);
  rig.store.noteLaunch("t-1", bytesOf("revision 0"), 0);
  expect(rig.store.launchesOf("m-1")).toHaveLength(REVISIONS);
});

test("S15: beyond the bytes that are kept a new one is refused", () => {
  const rig = admitted();
  expect(() => rig.store.noteLaunch("t-1", Buffer.alloc(REVISION_BYTES + 1), 0)).toThrow(limit);
  rig.store.noteLaunch("t-1", Buffer.alloc(REVISION_BYTES - 1), 0);
  expect(() => rig.store.noteLaunch("t-1", bytesOf("ab"), 0)).toThrow(limit);
  rig.store.noteLaunch("t-1", bytesOf("a"), 0);
});

test("a turn that is not there has no launch", () => {
  const rig = admitted();
  expect(() => rig.store.noteLaunch("none", bytesOf("one"), 0)).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
  expect(rig.store.launchOf("none")).toBeNull();
});
