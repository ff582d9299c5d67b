// The stand-in must not drift from the truth: what it plays by itself has the types and the order of the recordings.
import { expect, test } from "vitest";
import type { TurnPlan } from "../../../stand-ins/serve/script.ts";
import { type Captured, captured } from "./native.ts";
import { createRig, steps } from "./rig.ts";

type Raw = Captured["raw"];

/** What of an event the order is about: type, whose it is, role, state. Counts of repeats are left out. */
function signatures(events: readonly Raw[]): string[] {
  const names = new Map<unknown, string>();
  const users = new Set<unknown>();
  const lines = events.flatMap(({ type, properties }) => {
    const { sessionID, info, part, status, error, reply, field } = properties as Record<string, never> & {
      info?: Record<string, unknown>;
      part?: Record<string, unknown>;
      status?: { type: string };
      error?: { name: string };
    };
    // Titles, diffs and sums of a message: they come when they like, and decide nothing.
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
    ];
    return [[type, ...details.filter((detail) => detail !== undefined)].join(" ")];
  });
  // A tool that runs is reported again with each piece of its output, a text with each delta, a retry with each try.
  return lines.filter((line, at) => line !== lines[at - 1]);
}

/** The part of a recording that belongs to its first turn. */
function recorded(name: string, untilLine = Number.POSITIVE_INFINITY): string[] {
  return signatures(
    captured("opencode", name).flatMap(({ raw, line }) => (line <= untilLine ? [raw] : [])),
  ).filter(
    // Our session was made before we subscribed.
    (line) => line !== "session.created s0",
  );
}

interface Play {
  turn: TurnPlan;
  /** What is done to it at the first event that fits. */
  when?: (event: Raw, root: string) => boolean;
  call?: (event: Raw, root: string) => [path: string, body: unknown];
}

async function played({ turn, when, call: reaction }: Play): Promise<string[]> {
  const rig = await createRig({ turns: [turn] });
  const resident = await rig.launch();
  const root = resident.nativeId;
  const origin = `http://127.0.0.1:${await rig.port()}`;
  const authorization = `Basic ${Buffer.from(`opencode:${await rig.password()}`).toString("base64")}`;
  const post = (path: string, body: unknown) =>
    fetch(`${origin}${path}`, { method: "POST", headers: { authorization }, body: JSON.stringify(body) });
  const stream = await fetch(`${origin}/event?directory=${encodeURIComponent(resident.directory)}`, {
    headers: { authorization },
  });
  const events: Raw[] = [];
  let reacting: Promise<unknown> | null = null;
  await post(`/session/${root}/prompt_async`, {
    messageID: "msg_own",
    parts: [{ id: "prt_own", type: "text", text: "hello" }],
  });
  for await (const event of eventsOf(stream)) {
    events.push(event);
    if (reacting === null && when?.(event, root) && reaction !== undefined) {
      reacting = post(...reaction(event, root));
    }
    if (isOver(events, root)) break;
  }
  await reacting;
  await resident.stop();
  return signatures(events);
}

async function* eventsOf(stream: Response): AsyncGenerator<Raw> {
  let rest = "";
  for await (const chunk of stream.body ?? []) {
    rest += Buffer.from(chunk).toString("utf8");
    const frames = rest.split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) yield JSON.parse(frame.replace(/^data: /, "")) as Raw;
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

test.each<[string, Play, number?]>([
  ["turn-plain", { turn: steps({ text: "Hello there friend" }) }, 21],
  [
    "perm-once",
    { turn: steps({ tool: "bash", ask: {} }, { text: "after perm" }), when: isAsked, call: answer("once") },
  ],
  [
    "perm-reject",
    { turn: steps({ tool: "bash", ask: { first: true } }), when: isAsked, call: answer("reject") },
  ],
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
  [
    "abort-bash",
    { turn: steps({ running: "bash" }), when: (event) => state(event) === "running", call: abort },
  ],
  [
    "retry-abort",
    {
      turn: steps({ retry: "fake 429", inMs: 60_000, goesOn: false }),
      when: ({ properties }) => (properties.status as { type?: string } | undefined)?.type === "retry",
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
])("%s is played as it was recorded", async (name, play, untilLine) => {
  expect(await played(play)).toEqual(recorded(name, untilLine));
});
