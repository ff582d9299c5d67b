/**
 * What a Claude Code process does outside our turns: turns that it starts by itself over what a background task brought.
 * A prompt must not meet one: the CLI would mix it into the turn under way, between two of its tools (measured on both
 * pinned versions). Pure.
 */
import type { NativeMessage } from "./native-message.ts";

/** Behind the end of a background task a turn may be due: it began 10 to 90 ms later (measured). */
const DUE_MS = 250;

export interface Activity {
  /** `isOurs`: it belongs to a turn of ours. Returns what began or ended by itself. */
  take(message: NativeMessage, isOurs: boolean, nowMs: number): "started" | "ended" | null;
  /** Background tasks that have not ended, by their ids. */
  tasks(): readonly string[];
  /** 0: nothing runs and nothing is due. Null: something runs. Else: so long until it is known that nothing is due. */
  quietInMs(nowMs: number): number | null;
}

export function createActivity(): Activity {
  let isBusy = false;
  let tasks: string[] = [];
  let dueUntilMs = Number.NEGATIVE_INFINITY;

  return {
    take(message, isOurs, nowMs) {
      if (message.type === "system" && message.subtype === "background_tasks_changed") {
        if (message.tasks.length < tasks.length) dueUntilMs = nowMs + DUE_MS;
        tasks = message.tasks.map(({ task_id }) => task_id);
        return null;
      }
      if (message.type === "system" && message.subtype === "init" && !isOurs && !isBusy) {
        isBusy = true;
        return "started";
      }
      // A turn that took our message in ends with ours.
      if (message.type === "result" && isBusy) {
        isBusy = false;
        return "ended";
      }
      return null;
    },
    tasks: () => tasks,
    quietInMs: (nowMs) => (isBusy ? null : Math.max(0, dueUntilMs - nowMs)),
  };
}
