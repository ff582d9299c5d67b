import fc from "fast-check";
import { expect, test } from "vitest";
import {
  decideIdle,
  decideStart,
  type ResidencyLimits,
  type ResidentFact,
} from "../../controller/residency-decision.ts";

const LIMITS: ResidencyLimits = {
  idleMs: 1000,
  residents: 3,
  memoryBytes: 1000,
  startBytes: 100,
  starts: 2,
  waiting: 10,
  waitMs: 1000,
};

let order = 0;
function resident(member: string, facts: Partial<ResidentFact> = {}): ResidentFact {
  order += 1;
  return { member, isBusy: false, idleMs: 0, order, rssBytes: 100, ...facts };
}
const busy = { isBusy: true };

test("a process is idle from its limit on, and never while it is in use", () => {
  const residents = [
    resident("just", { idleMs: 999 }),
    resident("over", { idleMs: 1000 }),
    resident("long", { idleMs: 1e9 }),
    resident("used", { idleMs: 1e9, ...busy }),
  ];
  expect(decideIdle(residents, LIMITS)).toEqual(["over", "long"]);
  expect(decideIdle([], LIMITS)).toEqual([]);
});

const ROWS: Array<
  [string, ResidentFact[], number, Partial<ResidencyLimits>, ReturnType<typeof decideStart>]
> = [
  ["nothing is resident", [], 0, {}, { kind: "start" }],
  ["there is room", [resident("a"), resident("b", busy)], 0, {}, { kind: "start" }],
  ["as many start as may", [], 2, {}, { kind: "wait", reason: "2 processes are starting" }],
  ["one more may start", [], 1, {}, { kind: "start" }],
  [
    "the longest unused makes room",
    [resident("newer", { order: 9 }), resident("oldest", { order: 1 }), resident("middle", { order: 5 })],
    0,
    {},
    { kind: "retire", members: ["oldest"], reason: "more than 3 resident processes" },
  ],
  [
    "one in use makes no room, however long unused",
    [
      resident("oldest", { order: 1, ...busy }),
      resident("next", { order: 2 }),
      resident("newest", { order: 3, ...busy }),
    ],
    0,
    {},
    { kind: "retire", members: ["next"], reason: "more than 3 resident processes" },
  ],
  [
    "all are in use",
    [resident("a", busy), resident("b", busy), resident("c", busy)],
    0,
    {},
    { kind: "wait", reason: "more than 3 resident processes" },
  ],
  [
    "those that start count",
    [resident("a", busy), resident("b", busy)],
    1,
    {},
    { kind: "wait", reason: "more than 3 resident processes" },
  ],
  [
    "memory needs two to go",
    [
      resident("a", { order: 1, rssBytes: 300 }),
      resident("b", { order: 2, rssBytes: 400 }),
      resident("c", { order: 3, rssBytes: 950, ...busy }),
    ],
    0,
    { residents: 9, memoryBytes: 1100 },
    { kind: "retire", members: ["a", "b"], reason: "more than 0 MB of resident processes" },
  ],
  [
    "memory that those in use hold",
    [resident("a", { rssBytes: 300 }), resident("b", { rssBytes: 1000, ...busy })],
    0,
    { residents: 9 },
    { kind: "wait", reason: "more than 0 MB of resident processes" },
  ],
  [
    "one that was never looked at counts as one that starts",
    [resident("a", { rssBytes: null, ...busy })],
    0,
    { memoryBytes: 199 },
    { kind: "wait", reason: "more than 0 MB of resident processes" },
  ],
  ["a budget below one process, and nobody there", [], 0, { memoryBytes: 10 }, { kind: "start" }],
  ["a count of none, and nobody there", [], 0, { residents: 0 }, { kind: "start" }],
  [
    "a budget below one process, and an idle one there",
    [resident("a")],
    0,
    { memoryBytes: 10 },
    { kind: "retire", members: ["a"], reason: "more than 0 MB of resident processes" },
  ],
];

for (const [what, residents, starting, limits, decision] of ROWS) {
  test(`a start when ${what}: ${decision.kind}`, () => {
    expect(decideStart(residents, starting, { ...LIMITS, ...limits })).toEqual(decision);
  });
}

test("nobody in use is retired, the longest unused go first, and carrying it out always leads to an end", () => {
  const facts = fc.uniqueArray(
    fc.record({
      member: fc.string({ minLength: 1 }),
      isBusy: fc.boolean(),
      idleMs: fc.nat(),
      order: fc.nat(),
      rssBytes: fc.option(fc.nat(600)),
    }),
    { maxLength: 8, selector: ({ member }) => member },
  );
  const limits = fc.record({
    idleMs: fc.nat(),
    residents: fc.nat(6),
    memoryBytes: fc.nat(2000),
    startBytes: fc.nat(400),
    starts: fc.integer({ min: 1, max: 3 }),
    waiting: fc.constant(10),
    waitMs: fc.constant(10),
  });
  fc.assert(
    fc.property(facts, fc.nat(3), limits, (given, starting, bounds) => {
      let residents = given;
      for (let steps = 0; ; steps += 1) {
        expect(steps).toBeLessThan(10);
        const decision = decideStart(residents, starting, bounds);
        if (decision.kind !== "retire") break;
        const gone = residents.filter(({ member }) => decision.members.includes(member));
        const stay = residents.filter(({ member, isBusy }) => !isBusy && !decision.members.includes(member));
        expect(gone.length).toBe(decision.members.length);
        for (const one of gone) {
          expect(one.isBusy).toBe(false);
          for (const other of stay) expect(one.order).toBeLessThanOrEqual(other.order);
        }
        residents = residents.filter((one) => !gone.includes(one));
      }
      for (const member of decideIdle(given, bounds))
        expect(given.find((one) => one.member === member)?.isBusy).toBe(false);
    }),
  );
});
