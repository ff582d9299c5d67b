/**
 * One turn by a controller of its own: the one that the tour kills. Prints a line of JSON when the CLI has taken the
 * prompt, another at the end (which it does not live to see). The model's key comes on standard input.
 */
import { text as readAll } from "node:stream/consumers";
import type { Command } from "./command.ts";
import { text } from "./command.ts";
import { openCommandHost } from "./open.ts";

export const tourTurn: Command = {
  name: "tour-turn",
  summary: "Runs one turn for the tour.",
  usage: "MEMBER TEXT --model-url URL",
  options: { "model-url": { type: "string" } },
  words: { min: 2, max: 2 },
  async run({ words: [member = "", message = ""], values, environment, output }) {
    const key = await readAll(process.stdin);
    const route = { baseUrl: text(values, "model-url") ?? "", key: key === "" ? null : key };
    const { host, close } = await openCommandHost({ environment, output, route });
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
