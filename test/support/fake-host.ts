/** A real host over a real store, with fake sandboxes; everything is ended and removed when the test is over. */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { onTestFinished } from "vitest";
import { type Host, type HostOptions, openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import type { Clock } from "../../protocol/clock.ts";
import type { FakeBridge } from "./fake-bridge.ts";
import { type FakeClock, settled } from "./fake-clock.ts";
import { FakeSandboxes } from "./fake-sandbox.ts";
import { OPTIONS } from "./member-options.ts";
import { until } from "./until.ts";

export const KEY = "sk-a-key-that-must-not-leave-the-host";

const IDLE_STEP_MS = 500;

export interface FakeHost {
  host: Host;
  sandboxes: FakeSandboxes;
  directory: string;
  warnings: string[];
  /** A member of a sandbox of its own, `box` unless named. */
  member(sandbox?: string): string;
  bridge(sandbox?: string): FakeBridge;
  /** Closes this host and opens another one over the same store. */
  reopen(): Promise<Host>;
  open(): Promise<Host>;
  /** Reads a store in the folder as another process would; nothing of it is taken from this host. */
  onDisk<T>(sql: string): T[];
}

export interface FakeHostOptions {
  clock?: Clock;
  relay?: HostOptions["relay"];
  residency?: HostOptions["residency"];
  storeUrl?: string;
}

export async function startFakeHost(options: FakeHostOptions = {}): Promise<FakeHost> {
  // Short on purpose: a Unix socket's path has 107 bytes.
  const directory = mkdtempSync("/tmp/hf-");
  const sandboxes = new FakeSandboxes();
  const warnings: string[] = [];
  const open = () =>
    openHost({
      directory,
      drivers: [sandboxes],
      relay: options.relay ?? { routes: everyProtocol({ baseUrl: "http://127.0.0.1:9/v1", key: KEY }) },
      ...(options.clock === undefined ? {} : { clock: options.clock }),
      ...(options.storeUrl === undefined ? {} : { storeUrl: options.storeUrl }),
      ...(options.residency === undefined ? {} : { residency: options.residency }),
      onWarning: (what, detail) => warnings.push(`${what}: ${detail}`),
    });
  const made: FakeHost = {
    host: await open(),
    sandboxes,
    directory,
    warnings,
    member(sandbox = "box") {
      if (!made.host.sandboxes().some(({ id }) => id === sandbox))
        made.host.createSandbox({ kind: "docker", id: sandbox });
      return made.host.createMember({ sandbox, cli: "opencode", ...OPTIONS }).id;
    },
    bridge: (sandbox = "box") => sandboxes.bridge(sandbox),
    open,
    async reopen() {
      await made.host.close();
      made.host = await open();
      return made.host;
    },
    onDisk<T>(sql: string) {
      const reader = new DatabaseSync(join(directory, "holdfast.db"), { readOnly: true });
      try {
        return reader.prepare(sql).all() as T[];
      } finally {
        reader.close();
      }
    },
  };
  onTestFinished(async () => {
    for (const bridge of sandboxes.bridges.values()) bridge.vanish();
    await made.host.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return made;
}

/** Lets fake time pass in small steps, with real input in between, until something holds. */
export async function passing<T>(
  clock: FakeClock,
  what: string,
  look: () => T | Promise<T>,
): Promise<Exclude<T, null | undefined | false>> {
  return until(what, async () => {
    const value = await look();
    if (value !== null && value !== undefined && value !== false) return value;
    await clock.elapse(100);
    return value;
  });
}

/** Lets fake time pass until the work settles. An error is given back, not thrown. */
export async function passingUntil<T>(clock: FakeClock, what: string, work: Promise<T>): Promise<T | Error> {
  const results: Array<T | Error> = [];
  work.then(
    (value) => results.push(value),
    (error: Error) => results.push(error),
  );
  await passing(clock, what, () => results.length > 0);
  return results[0] as T | Error;
}

/** Lets fake time pass while the links stay alive: between small steps their pings are answered. */
export async function idle(clock: FakeClock, ms: number): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += IDLE_STEP_MS) {
    await clock.elapse(IDLE_STEP_MS);
    for (let turn = 0; turn < 10; turn += 1) await settled();
  }
}

/** The bridge dials until a controller has taken it, as it does after a restart of one. */
export async function dialAgain(fake: FakeHost): Promise<void> {
  await until("the welcome", async () => {
    const result = await fake
      .bridge()
      .dial()
      .catch(() => "closed");
    return result === "welcome";
  });
}
