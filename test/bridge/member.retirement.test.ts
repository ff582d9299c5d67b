// A member whose CLI says that its process may take no further turn (rows D1 to D4 of the acceptance list, the bridge's
// share of them): the real member and the real runner on the test double of a driver.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createMember } from "../../bridge/member.ts";
import { createTurnRunner, type Submission } from "../../bridge/turn-runner.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { type FakeResident, fakeDriver, NATIVE_END, OWN_EVENT } from "../support/fake-driver.ts";
import { keptLog } from "../support/kept-log.ts";
import { LOCATOR, PARAMS } from "../support/samples.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";

const RETRIED = "the CLI has retried a request";
const STUCK = { pid: 77, parent: 1, startTicks: "1", state: "D", command: "stuck" };

class Scene {
  readonly clock = new FakeClock();
  readonly driver = fakeDriver();
  readonly log = keptLog();
  /** Control events by type, calls of the driver, and settlements, in their order. */
  readonly order: string[] = [];
  readonly member;
  #turns = 0;

  constructor() {
    const directory = temporaryDirectory();
    for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
    const launch = this.driver.onLaunch;
    this.driver.onLaunch = async (request, locator) => {
      this.order.push(`launch ${request.processGeneration} ${locator === null ? "new" : locator.nativeId}`);
      return launch(request, locator);
    };
    this.member = createMember({
      id: "m-1",
      driver: this.driver,
      command: ["/never/launched"],
      cliVersion: "2.1.220",
      config: {
        storeId: "store-1",
        sandboxId: "box-1",
        isolation: "process",
        controllerSocket: "/none",
        modelSocket: "/none",
        tokenFile: "/none",
        stateDirectory: "/none",
        slotsDirectory: join(directory, "slots"),
        workspace: join(directory, "workspace"),
        users: null,
        clis: [],
        limits: DEFAULT_LIMITS,
      },
      modelUrl: "http://127.0.0.1:1",
      modelToken: (generation) => `token-${generation}`,
      clock: this.clock,
      log: this.log,
      report: (event) => this.#note(event),
    });
  }

  #note(event: ControlEvent): void {
    if (event.type === "member.process") {
      const why = event.state === "retired" ? `: ${event.detail}` : "";
      this.order.push(`process ${event.processGeneration} ${event.state}${why}`);
    } else if (event.type === "turn.ended") this.order.push(`ended ${event.turn}`);
  }

  resident(at: number): FakeResident {
    const resident = this.driver.residents[at];
    if (resident === undefined) throw new Error(`there is no resident ${at}`);
    return resident;
  }

  #submits(): number {
    return this.driver.residents.flatMap(({ calls }) => calls).filter((call) => call === "submit").length;
  }

  /** Starts the next turn; what comes of it is known when {@link finish} was called. */
  async begin(): Promise<{ finish(): Promise<Settlement>; abort(): void }> {
    this.#turns += 1;
    const before = this.#turns - 1;
    const submitsBefore = this.#submits();
    const submission: Submission = {
      ...PARAMS["turn.submit"],
      turn: `t-${this.#turns}`,
      number: this.#turns,
      settledTurns: before,
      locator: before === 0 ? null : { ...LOCATOR, settledTurns: before },
    };
    const result = Promise.withResolvers<Settlement>();
    const runner = createTurnRunner(submission, {
      clock: this.clock,
      log: this.log,
      limits: DEFAULT_LIMITS,
      append: async (event) => this.#note(event),
      prepare: (signal) => this.member.prepare(submission, signal),
      proveDelivery: async () => "unclear",
      onText: () => undefined,
      onEnded: (settlement) => {
        this.member.turnEnded(settlement);
        result.resolve(settlement);
      },
      onBroken: (error) => result.reject(error),
    });
    this.member.active = runner;
    runner.start();
    return {
      abort: () => runner.abort(),
      finish: async () => {
        while (this.#submits() === submitsBefore) await settled();
        runner.observe(OWN_EVENT);
        runner.observe(NATIVE_END);
        return result.promise;
      },
    };
  }

  async turn(): Promise<Settlement> {
    return (await this.begin()).finish();
  }
}

test("D4: without a reason the same process takes the next turn: LIVE", async () => {
  const scene = new Scene();
  expect(await scene.turn()).toMatchObject({ outcome: "completed", context: "NEW", keepsProcess: true });
  expect(await scene.turn()).toMatchObject({ outcome: "completed", context: "LIVE", processGeneration: 1 });
  expect(scene.order.filter((line) => line.startsWith("launch"))).toEqual(["launch 1 new"]);
});

test("D1: the turn settles as ever and its end is told first; then the process is retired, with the reason", async () => {
  const scene = new Scene();
  const { finish } = await scene.begin();
  while (scene.driver.residents.length === 0) await settled();
  scene.resident(0).retireReason = RETRIED;
  expect(await finish()).toMatchObject({
    outcome: "completed",
    settled: true,
    keepsProcess: false,
    error: null,
  });
  expect(scene.order.slice(-2)).toEqual(["ended t-1", `process 1 retired: ${RETRIED}`]);
  expect(scene.resident(0).calls.slice(-2)).toEqual(["endTurn", "stop"]);
  expect(scene.member.resident()).toBeNull();
});

test("D2: the next turn waits for the confirmed exit, and then resumes the same id: RESTORED", async () => {
  const scene = new Scene();
  const { finish } = await scene.begin();
  while (scene.driver.residents.length === 0) await settled();
  const exit = Promise.withResolvers<never[]>();
  scene.resident(0).retireReason = RETRIED;
  scene.resident(0).answers.stop = () => exit.promise;
  await finish();
  const next = await scene.begin();
  for (let at = 0; at < 20; at += 1) await settled();
  expect(scene.order.at(-1)).toBe(`process 1 retired: ${RETRIED}`);
  exit.resolve([]);
  expect(await next.finish()).toMatchObject({
    context: "RESTORED",
    processGeneration: 2,
    keepsProcess: true,
  });
  expect(scene.order).toContain("launch 2 ses_1");
  // The reason was the old process's own: the new one stays.
  expect(await scene.turn()).toMatchObject({ context: "LIVE", processGeneration: 2 });
});

test("D3: an exit that is not confirmed leaves the turn settled; the next launch follows, which reaps the slot first", async () => {
  const scene = new Scene();
  const { finish } = await scene.begin();
  while (scene.driver.residents.length === 0) await settled();
  scene.resident(0).retireReason = RETRIED;
  scene.resident(0).answers.stop = async () => [STUCK];
  expect(await finish()).toMatchObject({ outcome: "completed", settled: true, error: null });
  await settled();
  expect(scene.log.lines).toContainEqual({
    level: "warn",
    what: "retirement not confirmed",
    fields: { member: "m-1", error: expect.stringContaining("77 (stuck)") },
  });
  expect(await scene.turn()).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    processGeneration: 2,
  });
});

test("D3: the same with a retirement that fails while the next turn waits for it", async () => {
  const scene = new Scene();
  const { finish } = await scene.begin();
  while (scene.driver.residents.length === 0) await settled();
  const exit = Promise.withResolvers<Array<typeof STUCK>>();
  scene.resident(0).retireReason = RETRIED;
  scene.resident(0).answers.stop = () => exit.promise;
  await finish();
  const next = await scene.begin();
  for (let at = 0; at < 20; at += 1) await settled();
  expect(scene.order.at(-1)).toBe(`process 1 retired: ${RETRIED}`);
  exit.resolve([STUCK]);
  expect(await next.finish()).toMatchObject({
    outcome: "completed",
    context: "RESTORED",
    processGeneration: 2,
  });
});

test("a reason that comes between turns counts before the next one: no turn goes into that process", async () => {
  const scene = new Scene();
  await scene.turn();
  scene.resident(0).retireReason = RETRIED;
  expect(await scene.turn()).toMatchObject({ context: "RESTORED", processGeneration: 2 });
  expect(scene.resident(0).calls.filter((call) => call === "submit")).toHaveLength(1);
  expect(scene.resident(0).calls.at(-1)).toBe("stop");
});

test("a turn that was never submitted is no turn in that process: it is kept, and the reason is asked before the next", async () => {
  const scene = new Scene();
  await scene.turn();
  const gate = Promise.withResolvers<never>();
  scene.resident(0).answers.gate = () => gate.promise;
  const cancelled = await scene.begin();
  while (scene.resident(0).calls.filter((call) => call === "gate").length < 2) await settled();
  cancelled.abort();
  await scene.clock.elapse(5000);
  expect(scene.order.at(-1)).toBe("ended t-2");
  expect(scene.member.resident()).not.toBeNull();
  gate.reject(new Error("late"));
});
