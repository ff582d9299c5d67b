/** `holdfast host`: what this host carries. Reads the store beside the controller that runs. */
import { hostReport } from "../host-report.ts";
import type { Command } from "./command.ts";
import { seconds, table } from "./output.ts";
import { readStore } from "./read-store.ts";

export const hostShow: Command = {
  name: "host",
  summary: "Shows resident processes, retained members, turns that wait for a start, and memory.",
  usage: "[--json]",
  options: {},
  words: { min: 0, max: 0 },
  async run({ environment, output }) {
    const report = readStore(environment, (store) => hostReport(store));
    if (output.isJson) {
      output.json(report);
      return 0;
    }
    if (report === null) {
      output.line("there is no store yet");
      return 0;
    }
    const { residents, retained, members, sandboxes, queue, memory } = report;
    const agoOf = (at: number) => `${seconds(Math.max(0, Date.now() - at))} ago`;
    output.line(
      `${residents.length} resident, ${retained} retained of ${members} members, ${queue.length} in the queue`,
    );
    output.line(
      `sandboxes: ${sandboxes.running} to run, ${sandboxes.stopped} stopped, ${sandboxes.unready} not ready`,
    );
    output.line(
      `memory: ${mb(memory.residentBytes)} resident, ${mb(memory.availableBytes)} of ${mb(memory.totalBytes)} available`,
    );
    if (residents.length > 0) {
      const rows = residents.map(({ member, sandbox, cli, rssBytes, usedAt, turn }) => [
        member,
        sandbox,
        cli,
        rssBytes === null ? "?" : mb(rssBytes),
        agoOf(usedAt),
        turn ?? "-",
      ]);
      output.line();
      output.line(table(["RESIDENT", "SANDBOX", "CLI", "MEMORY", "USED", "TURN"], rows));
    }
    if (queue.length > 0) {
      const rows = queue.map(({ turn, member, sandbox, submittedAt }) => [
        member,
        sandbox,
        agoOf(submittedAt),
        turn,
      ]);
      output.line();
      output.line(table(["WAITS", "SANDBOX", "SUBMITTED", "TURN"], rows));
    }
    return 0;
  },
};

function mb(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}
