// Every earlier layout, brought up and read: what an earlier version wrote stays what it was, and is worked on.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { launchOf, launchText } from "../../../controller/admission.ts";
import { NO_CALLS } from "../../../controller/relay/call-sums.ts";
import { checkStore } from "../../../controller/store/check.ts";
import { MIGRATIONS } from "../../../controller/store/migrations.ts";
import { openStore } from "../../../controller/store/open-store.ts";
import type { Store } from "../../../controller/store/store.ts";
import { BUILD } from "../../support/fake-sandbox.ts";
import { AT, SETTLEMENT } from "../../support/samples.ts";
import { CALL, chatBody, digestOf } from "../relay/calls.ts";
import { LAYOUTS, storeOfLayout } from "./layouts.ts";
import { numbered } from "./rig.ts";

function open(directory: string): Store {
  const store = openStore({ directory, nowAt: () => AT, cliVersion: () => "1.18.33" });
  onTestFinished(() => store.close());
  return store;
}

/** The columns of the first layout, as they are in the file. */
function raw(directory: string): unknown {
  const database = new DatabaseSync(join(directory, "holdfast.db"), { readOnly: true });
  const rows = [
    "SELECT id, kind, directory, generation, container, wanted, unready, journal_id, applied, created_at FROM sandboxes",
    "SELECT id, sandbox, cli, options, submissions, settled_turns, locator, pending_locator, created_at FROM members",
    "SELECT id, member, number, state, text_sha256, text_bytes, settlement, submitted_at, ended_at FROM turns",
    "SELECT member, settled_turns, locator, at FROM locator_history",
    "SELECT sandbox, native_id, member FROM native_ids",
    "SELECT turn, seq, at, event FROM turn_events",
    "SELECT sandbox, at, reasons FROM attestations",
    "SELECT at, what, subject, detail FROM audit",
    "SELECT value FROM meta WHERE name = 'id'",
  ].map((sql) => database.prepare(sql).all());
  database.close();
  return rows;
}

test.for(LAYOUTS)("layout %i: brought up, everything is as it was, whole, and stays so", (layout) => {
  const directory = storeOfLayout(layout);
  const before = raw(directory);
  for (let life = 0; life < 3; life += 1) {
    open(directory).close();
    expect(raw(directory)).toEqual(before);
    const { problems, layout: now, rows } = checkStore(join(directory, "holdfast.db"));
    expect({ problems, now }).toEqual({ problems: [], now: MIGRATIONS.length });
    expect(rows).toMatchObject({ sandboxes: 3, members: 4, turns: 9, turn_events: 49 });
  }
});

test.for(LAYOUTS)("layout %i: its records are read, whatever they ended in", (layout) => {
  const store = open(storeOfLayout(layout));
  expect(store.sandboxes().map(({ id, kind, unready }) => [id, kind, unready])).toEqual([
    ["box-1", "docker", null],
    ["box-2", "process", null],
    ["box-3", "docker", "the helper's bytes differ from the pinned ones"],
  ]);
  expect(store.member("m-1")).toMatchObject({
    settled_turns: 3,
    locator: { nativeId: "ses_a", settledTurns: 3, tail: { id: "msg_3" } },
    options: { model: { name: "m1" }, permissions: { rules: [{ tool: "bash" }] } },
  });
  expect(store.member("m-2")).toMatchObject({
    locator: { settledTurns: 1 },
    pending_locator: { settledTurns: 2 },
  });
  expect(store.locatorHistory("m-1").map(({ settledTurns }) => settledTurns)).toEqual([1, 2, 3]);
  const turns = ["m-1", "m-2", "m-3", "m-4"].flatMap((member) => store.turnsOf(member, 10));
  expect(turns.map(({ id, state, settlement }) => [id, state, settlement?.outcome])).toEqual([
    ["turn-a3", "settled", "aborted"],
    ["turn-a2", "settled", "failed"],
    ["turn-a1", "settled", "completed"],
    ["turn-b2", "settled", "completed"],
    ["turn-b1", "settled", "completed"],
    ["turn-c3", "unknown", "unknown"],
    ["turn-c2", "settled", "completed"],
    ["turn-c1", "not_sent", "not_sent"],
    ["turn-d1", "delivered", undefined],
  ]);
  expect(turns.flatMap(({ id }) => store.eventsOf(id))).toHaveLength(49);
  for (const [member, code] of [
    ["m-3", "INSPECTION_NEEDED"],
    ["m-4", "MEMBER_BUSY"],
  ] as const)
    expect(() => store.admit({ id: "t", member, textSha256: "ab", textBytes: 2 })).toThrow(
      expect.objectContaining({ code }),
    );
  expect(store.member("m-3")?.must_prove).toBe("a turn before it is unknown");
  expect(store.member("m-4")?.must_prove).toBeNull();
});

test.for(LAYOUTS)(
  "layout %i: what it left open is ended, and the next turn continues the member",
  (layout) => {
    const directory = storeOfLayout(layout);
    const store = open(directory);
    const at = store.sandbox("box-2")?.applied ?? 0;
    const session = { nativeId: "ses_d", directory: "/workspace", tail: null, isVerified: true };
    const settlement = { ...SETTLEMENT, session };
    const end = { type: "turn.ended" as const, member: "m-4", turn: "turn-d1", number: 1, settlement };
    store.apply("box-2", numbered([end], at + 1));
    expect(store.member("m-4")).toMatchObject({ settled_turns: 1, locator: { nativeId: "ses_d" } });
    const { turn, member } = store.admit({ id: "t-2", member: "m-4", textSha256: "ab", textBytes: 2 });
    expect(turn).toMatchObject({ number: 2, launch: null });
    const build = { ...BUILD, clis: [{ cli: "opencode", version: "1.18.33" }] };
    expect(store.noteLaunch("t-2", Buffer.from(launchText(member, build)), 0)).toBe(
      launchOf(member, build).launch.digest,
    );
    expect(store.launchOf("turn-d1")).toBeNull();
    store.close();
    expect(checkStore(join(directory, "holdfast.db")).problems).toEqual([]);
  },
);

test.for(LAYOUTS)(
  "layout %i: calls of models are recorded from here on, and there were none before",
  (layout) => {
    const directory = storeOfLayout(layout);
    const store = open(directory);
    const of = { member: "m-1" };
    expect(store.calls.sums(of)).toEqual(NO_CALLS);
    expect(store.calls.list(of, 10)).toEqual([]);
    const call = store.calls.record(
      { ...CALL, sandbox: "box-1", turn: "turn-a1" },
      digestOf(chatBody(["a"])),
    );
    store.close();
    expect(open(directory).calls.list(of, 10)).toEqual([call]);
    expect(checkStore(join(directory, "holdfast.db")).problems).toEqual([]);
  },
);

/** What some version may have written as a launch: an own encoding, or no JSON at all. */
const encodings = fc.oneof(
  fc.json().map((text) => Buffer.from(text)),
  fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  fc
    .constantFrom(
      '["sha256:1234","opencode","1.18.33",{"name":"m1"},{"default":"allow"},false]',
      '{"model":"m1","cli":"opencode"}',
      '{"cli":"opencode","model":"m1"}',
      '{ "cli": "opencode", "model": "m1", "later": null }\n',
    )
    .map((text) => Buffer.from(text)),
);

test("S15: any old launch configuration stays the same bytes under the same digest over any layout and many reloads; any flipped bit is refused", () => {
  const input = fc.record({
    layout: fc.constantFrom(...LAYOUTS),
    revisions: fc.uniqueArray(encodings, {
      minLength: 1,
      maxLength: 4,
      selector: (bytes) => bytes.toString("hex"),
    }),
    flip: fc.nat(),
  });
  fc.assert(
    fc.property(input, ({ layout, revisions, flip }) => {
      const directory = storeOfLayout(layout);
      let store = open(directory);
      const digests = revisions.map((bytes) => store.noteLaunch("turn-a1", bytes, 0));
      expect(digests).toEqual(revisions.map((bytes) => createHash("sha256").update(bytes).digest("hex")));
      for (let life = 0; life < 2; life += 1) {
        store.close();
        store = open(directory);
        const kept = new Map(
          store.launchesOf("m-1").map(({ sha256, bytes }) => [sha256, Buffer.from(bytes)]),
        );
        for (const [at, digest] of digests.entries()) expect(kept.get(digest)).toEqual(revisions[at]);
      }
      store.close();

      const victim = revisions.at(-1) ?? Buffer.alloc(0);
      const digest = digests.at(-1) ?? "";
      const bent = Buffer.from(victim);
      const bit = flip % (bent.length * 8);
      bent[bit >> 3] = (bent[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const database = new DatabaseSync(join(directory, "holdfast.db"));
      database.prepare("UPDATE launch_revisions SET bytes = ? WHERE sha256 = ?").run(bent, digest);
      database.close();
      store = open(directory);
      const damaged = expect.objectContaining({ code: "STORE_DAMAGED" });
      expect(() => store.launchOf("turn-a1")).toThrow(damaged);
      expect(() => store.launchesOf("m-1")).toThrow(damaged);
      expect(() => store.noteLaunch("turn-a1", victim, 0)).toThrow(damaged);
      store.close();
      expect(checkStore(join(directory, "holdfast.db")).problems).toEqual([
        expect.stringContaining("is not what was written"),
      ]);
    }),
    { numRuns: 25 },
  );
}, 60_000);
