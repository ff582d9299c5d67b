/**
 * One turn by a controller of its own: the one that the tour kills. Prints a line of JSON when the CLI has taken the
 * prompt, another at the end (which it does not live to see). The ways to the model come on standard input, with the key.
 */
import { text as readAll } from "node:stream/consumers";
import type { RelayOptions } from "../relay/routes.ts";
import type { Command } from "./command.ts";
import { openCommandHost } from "./open.ts";

export const tourTurn: Command = {
  name: "tour-turn",
  summary: "Runs one turn for the tour.",
  usage: "MEMBER TEXT",
  options: {},
  words: { min: 2, max: 2 },
  async run({ words: [member = "", message = ""], environment, output }) {
    const relay = JSON.parse(await readAll(process.stdin)) as RelayOptions;
    const { host, close } = await openCommandHost({ environment, output, relay });
    try {
      const turn = host.submit(member, message);
      for await (const update of turn) {
        if (update.kind === "text") output.json({ turn: turn.id, at: "text" });
      }
      output.json({ turn: turn.id, at: "settled" });
      return 0;
    } finally {
      await close();
    }
  },
};
