// Feeds a turn view and keeps what a runner would: changes, the assembled text, the ends.
import type { NativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import {
  createTurnView,
  type TurnView,
  type ViewChange,
} from "../../../../bridge/drivers/serve/turn-view.ts";
import { createTurnOutput } from "../../../../bridge/turn-output.ts";
import { type Captured, type Cli, captured, readEvent } from "./native.ts";

type NativeEnd = Extract<ViewChange, { kind: "native_end" }>;

export interface Replayed {
  view: TurnView;
  changes: ViewChange[];
  /** Index of the event at which each end came. */
  ends: Array<{ at: number; end: NativeEnd }>;
  parts: string[];
}

export function replay(
  events: readonly (NativeEvent | null)[],
  turn: {
    root: string;
    own: string;
    earlier?: Iterable<string>;
    isBracketed?: boolean;
    isAtOtherWork?: boolean;
  },
): Replayed {
  const view = createTurnView(
    turn.root,
    turn.own,
    new Set(turn.earlier),
    turn.isBracketed,
    turn.isAtOtherWork,
  );
  const output = createTurnOutput();
  const changes: ViewChange[] = [];
  const ends: Replayed["ends"] = [];
  events.forEach((event, at) => {
    if (event === null) return;
    for (const change of view.take(event)) {
      changes.push(change);
      if (change.kind === "text") output.put(change.part, change.from, change.text);
      if (change.kind === "withdrawn") output.withdraw(change.part);
      if (change.kind === "native_end") ends.push({ at, end: change });
    }
  });
  return { view, changes, ends, parts: output.parts() };
}

export interface CapturedTurn {
  lines: Captured[];
  events: (NativeEvent | null)[];
  root: string;
  /** Ids of the root's user messages, in order. */
  users: string[];
}

export function capturedTurns(cli: Cli, name: string): CapturedTurn {
  const lines = captured(cli, name);
  const events = lines.map(({ data }) => readEvent(data));
  const first = events.find((event) => event?.type === "session.created");
  if (first?.type !== "session.created") throw new Error(`${cli}/${name} creates no session`);
  const root = first.properties.info.id;
  const users = events.flatMap((event) =>
    event?.type === "message.updated" &&
    event.properties.sessionID === root &&
    event.properties.info.role === "user"
      ? [event.properties.info.id]
      : [],
  );
  return { lines, events, root, users: [...new Set(users)] };
}
