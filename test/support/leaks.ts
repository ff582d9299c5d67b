// Setup file: fails a test file that leaves a server, socket or child open when its last hook has run.
import { globalAgent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect } from "vitest";

const watched = ["ProcessWrap", "TCPServerWrap", "TCPSocketWrap", "PipeServerWrap"];
const patienceMs = 1_000; // a socket that was closed leaves the list some ticks later
const pollMs = 20;

const before = open();

// Hooks run last in, first out: this one, from a setup file, comes after all of the test file's own.
afterAll(async () => {
  closeIdleConnections();
  const until = performance.now() + patienceMs;
  while (open().length > before.length && performance.now() < until) await sleep(pollMs);
  expect(open(), "left open by this file").toEqual(before);
});

function open(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter((name) => watched.includes(name))
    .sort();
}

/** Connections that Node's own clients keep for a next request are nobody's leak. */
function closeIdleConnections(): void {
  globalAgent.destroy();
  const dispatcher = Reflect.get(globalThis, Symbol.for("undici.globalDispatcher.1")) as
    | { close(): Promise<void> }
    | undefined;
  dispatcher
    ?.close()
    .catch((error: unknown) => expect.soft(error, "closing fetch's connections").toBeUndefined());
}
