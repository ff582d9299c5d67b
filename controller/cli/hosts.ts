/** `holdfast host ls|drain|remove`: the hosts that share a store, asked and moved beside their controllers. */
import { HoldfastError } from "../../protocol/errors.ts";
import type { HostState } from "../hosts/host-life.ts";
import { openHosts } from "../store/open-store.ts";
import type { Hosts } from "../store/postgres/hosts.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";
import { type Output, seconds, table } from "./output.ts";

export const hostList: Command = {
  name: "host ls",
  summary: "Lists the hosts that share the store, and whether they were heard of in time.",
  usage: "[--json]",
  options: {},
  words: { min: 0, max: 0 },
  async run({ environment, output }) {
    const rows = withHosts(environment, (hosts) => hosts.list());
    if (output.isJson) {
      output.json(
        rows.map((row) => ({
          id: row.id,
          state: row.state,
          isAlive: row.is_alive,
          sandboxes: row.sandboxes,
          fence: row.fence,
          beatAt: row.beat_at,
          silentMs: row.silent_ms,
          endedAt: row.ended_at,
        })),
      );
      return 0;
    }
    const cells = rows.map((row) => [
      row.id,
      row.state,
      row.is_alive ? "yes" : "no",
      row.silent_ms === null ? "never" : `${seconds(row.silent_ms)} ago`,
      String(row.sandboxes),
    ]);
    output.line(
      rows.length === 0 ? "no host yet" : table(["HOST", "STATE", "ALIVE", "HEARD", "SANDBOXES"], cells),
    );
    return 0;
  },
};

export const hostDrain: Command = {
  name: "host drain",
  summary: "Has a host take no new turn and no new sandbox; what runs there settles. --undo takes that back.",
  usage: "HOST [--undo] [--json]",
  options: { undo: { type: "boolean" } },
  words: { min: 1, max: 1 },
  run: async ({ words, values, environment, output }) =>
    move({ id: words[0] ?? "", to: values.undo === true ? "active" : "draining", environment, output }),
};

export const hostRemove: Command = {
  name: "host remove",
  summary: "Says that a host is gone for good: its controller is fenced off, and its id is spent.",
  usage: "HOST [--json]",
  options: {},
  words: { min: 1, max: 1 },
  run: async ({ words, environment, output }) =>
    move({ id: words[0] ?? "", to: "removed", environment, output }),
};

function move(options: { id: string; to: HostState; environment: Environment; output: Output }): number {
  const { id, to, environment, output } = options;
  const { state } = withHosts(environment, (hosts) => {
    hosts.move(id, to);
    return hosts.get(id);
  });
  if (output.isJson) output.json({ id, state });
  else output.line(`host ${id} is ${state}`);
  return 0;
}

/** Throws USAGE for a store that one controller has. */
function withHosts<T>({ storeUrl }: Environment, step: (hosts: Hosts) => T): T {
  if (storeUrl === null)
    throw new HoldfastError(
      "USAGE",
      "hosts share a store in a PostgreSQL database: name it with --store-url",
    );
  const { hosts, close } = openHosts(storeUrl);
  try {
    return step(hosts);
  } finally {
    close();
  }
}
