import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Heartbeat, readHeartbeat, startHeartbeat } from "../../controller/heartbeat.ts";
import { readRevision } from "../../controller/revision.ts";
import type { BridgeAnswer } from "../../controller/sandbox-probe.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { HELPER_PIN } from "../../protocol/pin.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { DIGEST_A } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until } from "../support/until.ts";

const ANSWER: BridgeAnswer = {
  reasons: [],
  report: { pin: HELPER_PIN, helperSha256: DIGEST_A, epoch: 3 },
  heartbeatMs: 40,
};

function rig(heard: () => Promise<BridgeAnswer | null> = async () => ANSWER) {
  const directory = temporaryDirectory();
  const clock = new FakeClock();
  const warnings: string[] = [];
  const store = { fence: 7, checkOwned(): void {} };
  const live = new Map([
    ["box", { heard }],
    ["quiet", { heard: async () => null }],
  ]);
  const start = () =>
    startHeartbeat({ directory, store, clock, live, onWarning: (what) => warnings.push(what) });
  return { directory, clock, warnings, store, start };
}

const first = (directory: string) => until("a heartbeat", () => readHeartbeat(directory));

test("the first one comes at once: revision, process, fence, and what each bridge on a link answered", async () => {
  const { directory, clock, start } = rig();
  const end = start();
  const heartbeat = await first(directory);
  const { version, sha256 } = await readRevision();
  expect(heartbeat).toEqual({
    version,
    revision: sha256,
    pid: process.pid,
    fence: 7,
    beganAt: clock.nowAt(),
    beatAt: clock.nowAt(),
    bridges: [{ sandbox: "box", ...ANSWER }],
  } satisfies Heartbeat);
  expect(statSync(join(directory, "controller.json")).mode & 0o777).toBe(0o600);
  end();
  expect(readdirSync(directory)).toEqual([]);
  expect(clock.pending).toBe(0);
});

test("it beats on, with the bridges asked anew each time", async () => {
  let asked = 0;
  const { directory, clock, start } = rig(async () => ({ ...ANSWER, heartbeatMs: ++asked }));
  const end = start();
  const { beatAt, beganAt } = await first(directory);
  await clock.elapse(5000);
  const next = await until("the second one", () => {
    const read = readHeartbeat(directory);
    return read !== null && read.beatAt > beatAt ? read : null;
  });
  expect(next).toMatchObject({ beganAt, beatAt: beatAt + 5000, bridges: [{ heartbeatMs: 2 }] });
  end();
});

test("a controller that lost the store writes nothing any more, and leaves its successor's alone", async () => {
  const { directory, clock, start, store, warnings } = rig();
  const end = start();
  const mine = await first(directory);
  store.checkOwned = () => {
    throw new HoldfastError("FENCED");
  };
  const successor = { ...mine, fence: 8, pid: 1 };
  writeFileSync(join(directory, "controller.json"), JSON.stringify(successor));
  await clock.elapse(20_000);
  expect(readHeartbeat(directory)).toEqual(successor);
  end();
  expect(readHeartbeat(directory)).toEqual(successor);
  expect(warnings).toEqual([]);
});

test("an end while a bridge is asked writes nothing afterwards", async () => {
  const answer = Promise.withResolvers<BridgeAnswer | null>();
  let isAsked = false;
  const { directory, clock, start } = rig(() => {
    isAsked = true;
    return answer.promise;
  });
  const end = start();
  await until("the question", () => isAsked);
  end();
  answer.resolve(null);
  await clock.elapse(10_000);
  expect(existsSync(join(directory, "controller.json"))).toBe(false);
  expect(clock.pending).toBe(0);
});

test("a place that can't be written is a warning, and is tried again", async () => {
  const { directory, clock, start, warnings, store } = rig();
  let isFaulty = true;
  store.checkOwned = () => {
    if (isFaulty) throw new Error("the disk says no");
  };
  const end = start();
  await until("the warning", () => warnings.length === 1);
  isFaulty = false;
  await until("a heartbeat", async () => {
    await clock.elapse(1000);
    return readHeartbeat(directory);
  });
  expect(warnings).toEqual(["the heartbeat can't be written"]);
  end();
});

test("what is no heartbeat reads as none", () => {
  const directory = temporaryDirectory();
  expect(readHeartbeat(directory)).toBeNull();
  for (const text of ["", "{", "{}", '{"version":1}']) {
    writeFileSync(join(directory, "controller.json"), text);
    expect(readHeartbeat(directory), text).toBeNull();
  }
});
