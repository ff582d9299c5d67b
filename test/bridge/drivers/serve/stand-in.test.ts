// The stand-in must not drift from the truth: what it plays by itself has the types and the order of the recordings.
import { expect, test } from "vitest";
import type { TurnPlan } from "../../../stand-ins/serve/script.ts";
import { type Captured, type Cli, captured } from "./native.ts";
import { createRig, steps } from "./rig.ts";

type Raw = Captured["raw"];

/** What of an event the order is about: type, whose it is, role, state. Counts of repeats are left out. */
function signatures(events: readonly Raw[]): string[] {
  const names = new Map<unknown, string>();
  const users = new Set<unknown>();
  const lines = events.flatMap(({ type, properties }) => {
    const { sessionID, info, part, status, error, reply, field, reason, parentID, queued } =
      properties as Record<string, never> & {
        info?: Record<string, unknown>;
        part?: Record<string, unknown>;
        status?: { type: string };
        error?: { name: string };
      };
    // Titles, diffs and sums of a message: they come when they like, and decide nothing.
    // Kilo says what it stores a second time.
    if (type === "sync") return [];
    if (["session.updated", "session.diff", "server.heartbeat", "server.connected"].includes(type)) return [];
    if (info !== undefined && type === "message.updated" && info.role === "user") {
      if (users.has(info.id)) return [];
      users.add(info.id);
    }
    if (!names.has(sessionID)) names.set(sessionID, `s${names.size}`);
    const time = (info?.time ?? part?.time ?? {}) as { completed?: number; end?: number };
    const details = [
      names.get(sessionID),
      info?.role,
      info?.finish,
      (info?.error as { name?: string } | undefined)?.name,
      info?.summary === true ? "summary" : undefined,
      type === "message.updated" && time.completed !== undefined ? "completed" : undefined,
      part?.type,
      (part?.state as { status?: string } | undefined)?.status,
      part?.type === "text" && info === undefined && time.end !== undefined ? "final" : undefined,
      status?.type,
      type === "session.error" ? error?.name : undefined,
      reply,
      field,
      reason,
      parentID === undefined ? undefined : "child",
      queued === undefined ? undefined : `${(queued as unknown[]).length} queued`,
    ];
    return [[type, ...details.filter((detail) => detail !== undefined)].join(" ")];
  });
  // A tool that runs is reported again with each piece of its output, a text with each delta, a retry with each try.
  return lines.filter((line, at) => line !== lines[at - 1]);
}

/** The part of a recording that belongs to its first turn. */
function recorded(cli: Cli, name: string, untilLine = Number.POSITIVE_INFINITY): string[] {
  return signatures(captured(cli, name).flatMap(({ raw, line }) => (line <= untilLine ? [raw] : []))).filter(
    // Our session was made before we subscribed.
    (line) => line !== "session.created s0",
  );
}

interface Play {
  turn: TurnPlan;
  /** What is played for a second prompt. */
  next?: TurnPlan;
  /** What is done to it at the first event that fits. */
  when?: (event: Raw, root: string) => boolean;
  call?: (event: Raw, root: string) => [path: string, body: unknown];
}

/** Plays them one after the other, each in a session of its own on one server. Gives the events of each. */
async function played(cli: Cli, plays: readonly Play[]): Promise<Raw[][]> {
  const rig = await createRig({ cli, turns: plays.flatMap(({ turn, next }) => [turn, next ?? []].flat()) });
  const resident = await rig.launch();
  const origin = `http://127.0.0.1:${await rig.port()}`;
  const authorization = `Basic ${Buffer.from(`${cli}:${await rig.password()}`).toString("base64")}`;
  const post = (path: string, body: unknown) =>
    fetch(`${origin}${path}`, { method: "POST", headers: { authorization }, body: JSON.stringify(body) });

  async function playOne({ when, call: reaction }: Play): Promise<Raw[]> {
    const root = await rig.launchStranger();
    const cut = new AbortController();
    const stream = await fetch(`${origin}/event?directory=${encodeURIComponent(resident.directory)}`, {
      headers: { authorization },
      signal: cut.signal,
    });
    const events: Raw[] = [];
    let reacting: Promise<unknown> | null = null;
    const prompt = { messageID: "msg_own", parts: [{ id: "prt_own", type: "text", text: "hello" }] };
    await post(`/session/${root}/prompt_async`, prompt);
    for await (const event of eventsOf(stream)) {
      events.push(event);
      if (reacting === null && when?.(event, root) && reaction !== undefined) {
        reacting = post(...reaction(event, root));
      }
      if (cli === "kilo" ? isClosed(event, root) : isOver(events, root)) break;
    }
    await reacting;
    cut.abort();
    return events;
  }

  const all: Raw[][] = [];
  for (const play of plays) all.push(await playOne(play));
  await resident.stop();
  return all;
}

async function* eventsOf(stream: Response): AsyncGenerator<Raw> {
  let rest = "";
  for await (const chunk of stream.body ?? []) {
    rest += Buffer.from(chunk).toString("utf8");
    const frames = rest.split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) yield { properties: {}, ...JSON.parse(frame.replace(/^data: /, "")) } as Raw;
  }
}

/** An idle of the root with every assistant message of it completed. */
function isOver(events: readonly Raw[], root: string): boolean {
  const last = events.at(-1);
  if (last?.type !== "session.idle" || last.properties.sessionID !== root) return false;
  const open = new Map<string, boolean>();
  for (const { type, properties } of events) {
    if (type !== "message.updated" || properties.sessionID !== root) continue;
    const info = properties.info as { id: string; role: string; time: { completed?: number } };
    if (info.role === "assistant") open.set(info.id, info.time.completed === undefined);
  }
  return open.size > 0 && ![...open.values()].includes(true);
}

/** Kilo's very last word: the bracket, or what follows one that was interrupted. */
function isClosed({ type, properties }: Raw, root: string): boolean {
  if (properties.sessionID !== root) return false;
  if (type === "session.drain.interrupted") return true;
  return type === "session.turn.close" && ["completed", "error"].includes(String(properties.reason));
}

const state = ({ properties }: Raw) =>
  (properties.part as { state?: { status?: string } } | undefined)?.state?.status;
const isAsked = ({ type }: Raw) => type === "permission.asked";
const answer =
  (reply: string): NonNullable<Play["call"]> =>
  ({ properties }) => [`/permission/${String(properties.id)}/reply`, { reply }];
const abort: NonNullable<Play["call"]> = (_event, root) => [`/session/${root}/abort`, {}];
const rejectQuestion: NonNullable<Play["call"]> = ({ properties }) => [
  `/question/${String(properties.id)}/reject`,
  {},
];

/** Fits at the second event that fits. */
function twice(fits: (event: Raw) => boolean): (event: Raw) => boolean {
  let seen = 0;
  return (event) => {
    if (fits(event)) seen += 1;
    return seen === 2 && fits(event);
  };
}

const asks = { turn: steps({ tool: "bash", ask: {} }, { text: "after perm" }), when: isAsked };
const asksFirst = (reply: string): Play => ({
  turn: steps({ tool: "bash", ask: { first: true } }),
  when: isAsked,
  call: answer(reply),
});
const isRunning = (event: Raw) => state(event) === "running";
const isStatus = (type: string) => (event: Raw) =>
  (event.properties.status as { type?: string } | undefined)?.type === type;

const OPENCODE_PLAYS: Array<[string, Play, number?]> = [
  ["turn-plain", { turn: steps({ text: "Hello there friend" }) }, 21],
  ["perm-once", { ...asks, call: answer("once") }],
  ["perm-reject", asksFirst("reject")],
  [
    "perm-two-reject-one",
    {
      turn: steps({ tools: [{ first: true }, { first: true }] }),
      // Both are pending when the second tool is seen to run; the cascade takes the other one along.
      when: twice(isAsked),
      call: answer("reject"),
    },
    22,
  ],
  [
    "question-reject",
    { turn: steps({ question: {} }), when: ({ type }) => type === "question.asked", call: rejectQuestion },
  ],
  ["fail-400", { turn: steps({ fail: "APIError", message: "fake 400" }) }, 12],
  ["fail-overflow", { turn: steps({ overflow: true }, { text: "ok (no plan)" }) }],
  ["connect-destroyed", { turn: steps({ retry: "Cannot connect", inMs: 5 }, { text: "recovered" }) }],
  ["stream-cut", { turn: steps({ cut: "par" }, { text: "recovered" }) }],
  [
    "task-child-perm-reject",
    {
      turn: steps({ task: [{ tool: "bash", ask: { first: true } }] }, { text: "root done" }),
      when: isAsked,
      call: answer("reject"),
    },
  ],
  [
    "abort-stream",
    { turn: steps({ open: "tick" }), when: ({ type }) => type === "message.part.delta", call: abort },
    16,
  ],
  ["abort-bash", { turn: steps({ running: "bash" }), when: isRunning, call: abort }],
  [
    "retry-abort",
    {
      turn: steps({ retry: "fake 429", inMs: 60_000, goesOn: false }),
      when: isStatus("retry"),
      call: abort,
    },
  ],
  [
    "perm-abort",
    {
      turn: steps({ tool: "bash", ask: { first: true } }),
      when: (event) => state(event) === "running",
      call: abort,
    },
    17,
  ],
  [
    "task-abort-root",
    {
      turn: steps({ task: [{ running: "bash" }] }),
      when: (event, root) => state(event) === "running" && event.properties.sessionID !== root,
      call: abort,
    },
  ],
];

const secondPrompt: NonNullable<Play["call"]> = (_event, root) => [
  `/session/${root}/prompt_async`,
  { messageID: "msg_second", parts: [{ id: "prt_second", type: "text", text: "second" }] },
];

const KILO_PLAYS: Array<[string, Play, number?]> = [
  ["turn-plain", { turn: steps({ transient: 2 }, { text: "Hello there friend" }) }, 28],
  ["perm-reject", { turn: steps({ tool: "bash", ask: {} }), when: isAsked, call: answer("reject") }],
  [
    "question-reject",
    { turn: steps({ question: {} }), when: ({ type }) => type === "question.asked", call: rejectQuestion },
  ],
  ["stream-cut", { turn: steps({ cut: "partial text" }) }],
  [
    "connect-destroyed",
    { turn: steps({ offline: "Connection reset by server" }), when: isStatus("offline"), call: abort },
  ],
  [
    "task-child-perm-reject",
    {
      turn: steps({ task: [{ tool: "bash", ask: {} }, { text: "child done" }] }, { text: "root done" }),
      when: isAsked,
      call: answer("reject"),
    },
  ],
  [
    "abort-stream",
    { turn: steps({ open: "tick" }), when: ({ type }) => type === "message.part.delta", call: abort },
    19,
  ],
  ["abort-bash", { turn: steps({ running: "bash" }), when: isRunning, call: abort }],
  [
    "retry-abort",
    {
      turn: steps({ retry: "fake 429", inMs: 60_000, goesOn: false }),
      when: isStatus("retry"),
      call: abort,
    },
  ],
  ["perm-abort", { turn: steps({ tool: "bash", ask: {} }), when: isAsked, call: abort }, 20],
  [
    "task-abort-root",
    {
      turn: steps({ task: [{ running: "bash" }] }),
      when: (event, root) => isRunning(event) && event.properties.sessionID !== root,
      call: abort,
    },
  ],
  [
    "second-prompt-while-busy",
    {
      turn: steps({ transient: 2 }, { text: "aaaa bbbb cccc dddd" }),
      next: steps({ text: "reply to second" }),
      when: ({ properties }) => (properties.part as { synthetic?: boolean } | undefined)?.synthetic === true,
      call: secondPrompt,
    },
    34,
  ],
];

test.each([
  ["opencode", OPENCODE_PLAYS],
  ["kilo", KILO_PLAYS],
] as const)("%s: every turn is played as it was recorded", async (cli, rows) => {
  const all = await played(
    cli,
    rows.map(([, play]) => play),
  );
  for (const [at, [name, play, untilLine]] of rows.entries()) {
    const wanted = recorded(cli, name, untilLine);
    const got = signatures(all[at] ?? []);
    // The recording of a queued prompt goes on with a third one; ours ends there.
    expect.soft(play.next === undefined ? got : got.slice(0, wanted.length), name).toEqual(wanted);
  }
});

test("Kilo says what it stores a second time, on the same stream", async () => {
  const [events = []] = await played("kilo", [{ turn: steps({ text: "x" }) }]);
  const told = events.filter(({ type }) => /^message\.(part\.)?updated$/.test(type));
  expect(events.filter(({ type }) => type === "sync")).toHaveLength(told.length);
});
