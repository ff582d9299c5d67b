import { expect, onTestFinished, test } from "vitest";
import { type Canary, createCanary } from "../../../../bridge/drivers/serve/canary.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

interface Bench {
  clock: FakeClock;
  canary: Canary;
  /** Nonces in the order in which they went out. */
  sent: string[];
}

function bench(publish: (nonce: string) => Promise<void> = async () => undefined): Bench {
  const clock = new FakeClock();
  const sent: string[] = [];
  const canary = createCanary({
    clock,
    publish(nonce) {
      sent.push(nonce);
      return publish(nonce);
    },
  });
  onTestFinished(() => expect(clock.pending, "timers left").toBe(0));
  return { clock, canary, sent };
}

/** How a flight ended, or "in flight". */
function watch(flight: Promise<number>): { now(): string } {
  let state = "in flight";
  flight.then(
    (sequence) => {
      state = `back at ${sequence}`;
    },
    (error: { code?: string; message: string }) => {
      state = `${error.code} ${error.message}`;
    },
  );
  return { now: () => state };
}

test("it resolves with the place at which it came back, and leaves no timer", async () => {
  const { clock, canary, sent } = bench();
  const flight = watch(canary.send(5000));
  await clock.elapse(100);
  expect(flight.now()).toBe("in flight");
  expect(canary.returned(sent[0] ?? "", 7)).toBe(true);
  await settled();
  expect(flight.now()).toBe("back at 7");
});

test("P3: it is sent again, the same one, until the subscriber is attached", async () => {
  const { clock, canary, sent } = bench();
  const flight = watch(canary.send(5000));
  await clock.elapse(1600);
  expect(sent).toHaveLength(4);
  expect(new Set(sent).size).toBe(1);
  canary.returned(sent[0] ?? "", 2);
  await clock.elapse(5000);
  expect(flight.now()).toBe("back at 2");
  expect(sent).toHaveLength(4);
});

test("one that does not come back fails the gate at its limit, and is no longer sent", async () => {
  const { clock, canary, sent } = bench();
  const flight = watch(canary.send(2000));
  await clock.elapse(1999);
  expect(flight.now()).toBe("in flight");
  await clock.elapse(1);
  expect(flight.now()).toBe("GATE_FAILED the canary did not come back within 2000 ms");
  const count = sent.length;
  await clock.elapse(10_000);
  expect(sent).toHaveLength(count);
});

test("a publishing that fails is named in the failure, and one that works later is enough", async () => {
  let isDown = true;
  const { clock, canary, sent } = bench(async () => {
    if (isDown) throw new Error("POST /tui/publish answered 500");
  });
  const first = watch(canary.send(1000));
  await clock.elapse(1000);
  expect(first.now()).toContain("POST /tui/publish answered 500");
  const second = watch(canary.send(1000));
  await clock.elapse(400);
  isDown = false;
  await clock.elapse(200);
  canary.returned(sent.at(-1) ?? "", 3);
  await settled();
  expect(second.now()).toBe("back at 3");
});

test("a loss of the stream fails every flight at once", async () => {
  const { canary } = bench();
  const flights = [watch(canary.send(5000)), watch(canary.send(5000))];
  canary.lost("the stream ended");
  await settled();
  for (const flight of flights)
    expect(flight.now()).toBe("GATE_FAILED the stream was lost: the stream ended");
});

test("two at once are told apart; another's toast is not one, and a late one of ours is nobody's news", async () => {
  const { canary, sent } = bench();
  const flights = [watch(canary.send(5000)), watch(canary.send(5000))];
  expect(sent[0]).not.toBe(sent[1]);
  expect(canary.returned("Update available", 1)).toBe(false);
  expect(canary.returned(sent[1] ?? "", 2)).toBe(true);
  expect(canary.returned(sent[1] ?? "", 3)).toBe(true);
  await settled();
  expect(flights.map((flight) => flight.now())).toEqual(["in flight", "back at 2"]);
  canary.returned(sent[0] ?? "", 4);
  await settled();
  expect(canary.returned(sent[0] ?? "", 5)).toBe(true);
});

test("after a freeze of the process the canary that was waiting to be read counts (law 13)", async () => {
  const { clock, canary, sent } = bench();
  const flight = watch(canary.send(5000));
  clock.freeze(60_000, () => canary.returned(sent[0] ?? "", 9));
  await settled();
  expect(flight.now()).toBe("back at 9");
});
