/** `holdfast sandbox ls|stop|rm`. */
import { HoldfastError } from "../../protocol/errors.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";
import { NO_MODEL, openCommandHost } from "./open.ts";
import { table } from "./output.ts";
import { readStore } from "./read-store.ts";

export const sandboxList: Command = {
  name: "sandbox ls",
  summary: "Lists sandboxes and their members.",
  usage: "[--json]",
  options: {},
  words: { min: 0, max: 0 },
  async run({ environment, output }) {
    const rows =
      readStore(environment, (store) =>
        store
          .sandboxes()
          .filter(({ wanted }) => wanted !== "removed")
          .map((sandbox) => ({ sandbox, members: store.membersOf(sandbox.id) })),
      ) ?? [];
    if (output.isJson) {
      output.json(
        rows.map(({ sandbox, members }) => ({
          id: sandbox.id,
          kind: sandbox.kind,
          wanted: sandbox.wanted,
          unready: sandbox.unready,
          container: sandbox.container?.containerId ?? null,
          members: members.map(({ id, cli, settled_turns, locator }) => ({
            id,
            cli,
            settledTurns: settled_turns,
            nativeId: locator?.nativeId ?? null,
          })),
        })),
      );
      return 0;
    }
    if (rows.length === 0) output.line("no sandboxes");
    else {
      const lines = rows.flatMap(({ sandbox, members }) => {
        const head = [sandbox.id, sandbox.kind, sandbox.unready === null ? sandbox.wanted : "not ready"];
        if (members.length === 0) return [[...head, "-", "-", "-", sandbox.unready ?? ""]];
        return members.map(({ id, cli, settled_turns, locator }) => [
          ...head,
          id,
          cli,
          String(settled_turns),
          sandbox.unready ?? locator?.nativeId ?? "",
        ]);
      });
      output.line(table(["SANDBOX", "KIND", "WANTED", "MEMBER", "CLI", "SETTLED", "NATIVE ID"], lines));
    }
    return 0;
  },
};

export const sandboxStop: Command = {
  name: "sandbox stop",
  summary: "Stops a sandbox; its files and conversations stay.",
  usage: "ID [--abort]    (--abort: ends a turn that runs in it)",
  options: { abort: { type: "boolean" } },
  words: { min: 1, max: 1 },
  async run({ words: [id = ""], values, environment, output }) {
    checkIsKnown(environment, id);
    const { host, close } = await openCommandHost({ environment, output, relay: NO_MODEL });
    try {
      output.progress(`stopping ${id}`);
      await host.stopSandbox(id, { abort: values.abort === true });
      if (output.isJson) output.json({ stopped: id });
      else output.line(`${id} is stopped`);
      return 0;
    } finally {
      await close();
    }
  },
};

export const sandboxRemove: Command = {
  name: "sandbox rm",
  summary: "Removes a sandbox with everything in it: files, conversations, processes.",
  usage: "ID",
  options: {},
  words: { min: 1, max: 1 },
  async run({ words: [id = ""], environment, output }) {
    checkIsKnown(environment, id);
    const { host, close } = await openCommandHost({ environment, output, relay: NO_MODEL });
    try {
      output.progress(`removing ${id}`);
      await host.removeSandbox(id);
      if (output.isJson) output.json({ removed: id });
      else output.line(`${id} is removed`);
      return 0;
    } finally {
      await close();
    }
  },
};

/** Throws SANDBOX_UNKNOWN. Asked before the store is owned, or made: a mistyped id must do neither. */
function checkIsKnown(environment: Environment, id: string): void {
  const row = readStore(environment, (store) => store.sandbox(id));
  if (row === null) throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${id}`);
}
