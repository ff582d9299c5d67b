/** How a turn is brought into each state of the matrix, how it is seen to be there, and what lets it go on. */
import { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../protocol/errors.ts";
import type { DriverSubject } from "../conformance/suite/subject.ts";
import type { TestHost } from "../support/host.ts";
import type { StepInput } from "../support/model/steps.ts";
import { userTexts } from "../support/turns.ts";
import { until } from "../support/until.ts";
import type { State } from "./matrix-table.ts";
import type { Place, PlaceProcess } from "./place.ts";

const SEEN_MS = 30_000;
const CHUNKS = Array.from({ length: 50 }, (_, at) => `chunk ${at}, `);

export interface Held {
  t: TestHost;
  subject: DriverSubject;
  place: Place;
  isCli(process: PlaceProcess): boolean;
  /** Of the cell; in every text and file name of it. */
  mark: string;
  text: string;
  /** The gate before which nothing is sent. */
  door: { close(): void; open(): void };
}

export interface Hold {
  /** What the model answers. */
  steps(held: Held): StepInput[];
  /** The whole text of a turn that runs to its end. */
  whole: string;
  before?(held: Held): Promise<void>;
  /** Resolves when the turn is there. */
  reached(held: Held, turn: string): Promise<void>;
  /** May be called for a turn that has ended meanwhile. */
  release?(held: Held, turn: string): Promise<void>;
}

const plain: Pick<Hold, "steps" | "whole"> = { steps: () => ["All of it."], whole: "All of it." };

/** What was recorded of the turn, read past whoever owns the store. */
function recordedTypes(directory: string, turn: string): string[] {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { readOnly: true, timeout: 5000 });
  const rows = database.prepare("SELECT event FROM turn_events WHERE turn = ?").all(turn);
  database.close();
  return rows.map(({ event }) => (JSON.parse(String(event)) as { type: string }).type);
}

function change(directory: string, statement: string): void {
  const database = new DatabaseSync(`${directory}/holdfast.db`, { timeout: 5000 });
  database.exec(statement);
  database.close();
}

const recorded = (type: string) => async (held: Held, turn: string) => {
  await until(`event ${type}`, () => recordedTypes(held.t.directory, turn).includes(type), SEEN_MS);
};

/** How many exits of its CLIs the bridge has seen in its life. */
export const exits = ({ place }: Held): number =>
  place.read("/var/lib/holdfast/journal").split('"state":"exited"').length;

export const HOLDS: Readonly<Record<State, Hold>> = {
  unsent: {
    ...plain,
    before: async ({ door }) => door.close(),
    reached: async () => undefined,
    release: async ({ door }) => door.open(),
  },
  preparing: {
    ...plain,
    async before(held) {
      const cli = held.place.find(held.isCli);
      if (cli === null) return;
      const before = exits(held);
      process.kill(cli.pid, "SIGKILL");
      await until("the bridge's news of it", () => exits(held) > before, SEEN_MS);
    },
    reached: recorded("turn.accepted"),
  },
  gating: {
    ...plain,
    async before({ place, isCli }) {
      signal(place, isCli, "SIGSTOP");
    },
    reached: recorded("turn.context"),
    async release({ place, isCli }) {
      signal(place, isCli, "SIGCONT");
    },
  },
  submitting: { ...plain, reached: recorded("turn.submitting") },
  streaming: {
    steps: () => [{ kind: "reply", text: CHUNKS, betweenChunksMs: 40 }],
    whole: CHUNKS.join(""),
    async reached(held, turn) {
      await held.t.model.waitForRequest((request) => userTexts(request).includes(held.text), SEEN_MS);
      await recorded("turn.delivered")(held, turn);
    },
  },
  tool: {
    steps: ({ subject, mark }) => [
      {
        kind: "reply",
        text: "Waiting. ",
        toolCalls: [subject.tools.shell(`until [ -e go-${mark} ]; do sleep 0.05; done`)],
      },
      "It came.",
    ],
    whole: "Waiting. It came.",
    reached: recorded("turn.tool"),
    async release({ place, mark }) {
      if (place.processes().length > 0) place.write(`/workspace/go-${mark}`, "");
    },
  },
  permission: {
    steps: ({ subject, mark }) => [
      { kind: "reply", toolCalls: [subject.tools.shell(`echo asked-${mark}`)] },
      "Ran.",
    ],
    whole: "Ran.",
    reached: recorded("turn.permission_asked"),
    async release({ t }, turn) {
      const { member, ended_at } = t.host.turn(turn);
      if (ended_at !== null) return;
      for (const asked of t.host.openRequests(member)) {
        if (asked.type !== "turn.permission_asked") continue;
        const { session, request } = asked.request;
        // Whoever would take it may be the one that died.
        await t.host.answerPermission({ turn, session, request, reply: "once" }).catch(isOurs);
      }
    },
  },
  settled: {
    ...plain,
    async before({ t }) {
      change(
        t.directory,
        "CREATE TRIGGER stuck BEFORE UPDATE OF ended_at ON turns BEGIN SELECT RAISE(ABORT, 'stuck'); END",
      );
    },
    async reached({ place }, turn) {
      const ended = new RegExp(`"type":"turn.ended","member":"[^"]+","turn":"${turn}"`);
      await until(
        "the end in the journal",
        () => ended.test(place.read("/var/lib/holdfast/journal")),
        SEEN_MS,
      );
    },
    async release({ t }) {
      change(t.directory, "DROP TRIGGER IF EXISTS stuck");
    },
  },
};

/** Sent to the CLI's process, if there is one. */
function signal(place: Place, isCli: (process: PlaceProcess) => boolean, name: NodeJS.Signals): void {
  const cli = place.find(isCli);
  if (cli !== null) process.kill(cli.pid, name);
}

function isOurs(error: unknown): void {
  if (!(error instanceof HoldfastError)) throw error;
}
