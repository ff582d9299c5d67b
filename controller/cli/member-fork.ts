/** `holdfast member fork`: a new member whose conversation begins as a copy of another one's. */
import { randomUUID } from "node:crypto";
import type { ForkRow } from "../store/records.ts";
import { type Command, text } from "./command.ts";
import { NO_MODEL, openCommandHost } from "./open.ts";
import { type Output, oneLine } from "./output.ts";

export const memberFork: Command = {
  name: "member fork",
  summary: "Forks a member's conversation into a new member of the same sandbox, without a prompt.",
  usage: "ID [--key KEY] [--id NEW] [--json]    (--key: the same key again goes on with the same fork)",
  options: { key: { type: "string" }, id: { type: "string" } },
  words: { min: 1, max: 1 },
  async run({ words: [from = ""], values, environment, output }) {
    const key = text(values, "key") ?? `fork-${randomUUID().slice(0, 8)}`;
    const id = text(values, "id");
    const { host, close } = await openCommandHost({ environment, output, relay: NO_MODEL });
    try {
      const fork = await host
        .forkMember({ from, key, ...(id === undefined ? {} : { id }) })
        .catch((error: unknown) => {
          if (!output.isJson) output.progress(`the fork's key is ${key}`);
          throw error;
        });
      if (output.isJson) output.json(fork);
      else show(fork, output);
    } finally {
      await close();
    }
    return 0;
  },
};

function show({ member, parent, key, state, session, source }: ForkRow, output: Output): void {
  output.line(`member ${member}, a fork of ${parent}: ${state}`, "bold");
  output.line(`key      ${key}`);
  output.line(`begins   behind ${source.settledTurns} settled turns of ${oneLine(source.nativeId)}`);
  output.line(
    session === null
      ? "session  made by the CLI with the first turn of the new member"
      : `session  ${oneLine(`${session.nativeId} in ${session.directory}`)}`,
  );
}
