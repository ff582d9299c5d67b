import { expect, onTestFinished, test } from "vitest";
import type { HostState } from "../../../controller/hosts/host-life.ts";
import { watchTenancy } from "../../../controller/hosts/tenancy.ts";
import type { Store } from "../../../controller/store/store.ts";
import { FakeClock } from "../../support/fake-clock.ts";

const code = (name: string, message = "") =>
  expect.objectContaining({ code: name, message: expect.stringContaining(message) });

function watched(hosts: object | null) {
  const clock = new FakeClock();
  const states: HostState[] = [];
  const tenancy = watchTenancy({
    store: { hosts, checkOwned: () => undefined } as unknown as Store,
    clock,
    onLost: () => undefined,
    onState: (state) => states.push(state),
  });
  onTestFinished(() => tenancy.stop());
  return { clock, tenancy, states };
}

test("in a store that one controller has, every sandbox is at home and work is taken", () => {
  const { tenancy } = watched(null);
  tenancy.checkHome("box");
  tenancy.checkTakesWork();
});

const PLACES = [
  ["its own", { host: "a", released_to: null }, null],
  ["one that nobody has yet", null, null],
  ["another host's", { host: "b", released_to: null }, "on host b"],
  ["its own that it let go of", { host: "a", released_to: "c" }, "on its way to host c"],
] as const;
for (const [what, place, where] of PLACES) {
  test(`a sandbox that is ${what} is ${where === null ? "at home" : "elsewhere, and it is said where"}`, () => {
    const { tenancy } = watched({ id: "a", get: () => ({ state: "active" }), placement: () => place });
    const check = () => tenancy.checkHome("box");
    if (where === null) check();
    else expect(check).toThrow(code("SANDBOX_ELSEWHERE", where));
  });
}

test("a host that drains takes no work, from its opening or from the renewal that says so", () => {
  const drains = watched({ id: "a", get: () => ({ state: "draining" }) });
  expect(() => drains.tenancy.checkTakesWork()).toThrow(code("HOST_DRAINING"));
  let state: HostState = "active";
  const { clock, tenancy, states } = watched({ id: "a", get: () => ({ state }), renew: () => state });
  tenancy.checkTakesWork();
  state = "draining";
  clock.advance(4000);
  expect(() => tenancy.checkTakesWork()).toThrow(code("HOST_DRAINING"));
  state = "active";
  clock.advance(4000);
  tenancy.checkTakesWork();
  expect(states).toEqual(["draining", "active"]);
});
