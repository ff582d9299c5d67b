/**
 * A controller of its own process, to be killed or frozen by a test: takes the store, submits one message, tells what it
 * sees, one JSON line each, and stays until it is ended or its stdin closes (so that it can't outlive the test).
 *
 *   node controller-child.ts '{"directory":…,"modelUrl":…,"modelKey":…,"member":…,"text":…,"diesBeforeSending":false}'
 */
import { fileURLToPath } from "node:url";
import { openHost } from "../../controller/host.ts";
import { everyProtocol } from "../../controller/relay/routes.ts";
import { engineSocket } from "../../controller/sandboxes/engine-api.ts";
import type { SandboxDriver } from "../../controller/sandboxes/sandbox.ts";
import { setUp } from "../../controller/setup.ts";
import { asHoldfastError } from "../../protocol/errors.ts";
import type { Settlement } from "../../protocol/settlement.ts";
import { testLabel } from "../../scripts/leftovers.ts";

export interface ChildOrder {
  directory: string;
  modelUrl: string;
  modelKey: string;
  member: string;
  text: string;
  /** Ends itself hard when the turn is durable and nothing of it was sent. */
  diesBeforeSending: boolean;
  /** Of the whole turn; the bridge's own when missing. */
  limitMs?: number;
}

export type ChildLine =
  | { at: "submitted"; turn: string }
  | { at: "settled"; settlement: Settlement; seen: string }
  | { at: "failed"; code: string }
  | { at: "warning"; text: string };

if (import.meta.main) {
  const order = JSON.parse(process.argv[2] ?? "") as ChildOrder;
  const run = process.env.HOLDFAST_TEST_RUN ?? "none";
  const tell = (line: ChildLine) => process.stdout.write(`${JSON.stringify(line)}\n`);
  let isArmed = false;

  /** What every sending asks first, behind the admission. */
  const deadly = (driver: SandboxDriver): SandboxDriver => ({
    ...driver,
    pinned() {
      if (isArmed) process.kill(process.pid, "SIGKILL");
      return driver.pinned();
    },
  });

  process.stdin.resume().once("end", () => process.exit(0));
  const setup = setUp({
    distDirectory: fileURLToPath(new URL("../../dist", import.meta.url)),
    engineSocketPath: engineSocket(process.env.DOCKER_HOST),
    path: process.env.PATH ?? "/usr/bin:/bin",
    labels: { [testLabel]: run },
    environment: { HOLDFAST_TEST_RUN: run },
  });
  const host = await openHost({
    directory: order.directory,
    drivers: setup.drivers.map(deadly),
    relay: { routes: everyProtocol({ baseUrl: order.modelUrl, key: order.modelKey }) },
    onWarning: (what, detail) => tell({ at: "warning", text: `${what}: ${detail}` }),
  });
  const turn = host.submit(order.member, order.text, { limitMs: order.limitMs ?? 0 });
  isArmed = order.diesBeforeSending;
  tell({ at: "submitted", turn: turn.id });
  const parts = new Map<string, string>();
  try {
    for await (const update of turn) {
      if (update.kind !== "text") continue;
      parts.set(update.part, (parts.get(update.part) ?? "").slice(0, update.from) + update.text);
    }
    tell({ at: "settled", settlement: await turn.settlement, seen: [...parts.values()].join("") });
  } catch (error) {
    tell({ at: "failed", code: asHoldfastError(error).code });
  }
}
