import { expect, test } from "vitest";
import { watchUnrequested } from "../../../../bridge/drivers/serve/unrequested.ts";
import { on } from "./native.ts";

function watch() {
  const told: string[] = [];
  const watcher = watchUnrequested((session, state, detail) => told.push(`${session} ${state}: ${detail}`));
  return { watcher, told };
}

test("work that nobody asked for is told once at its start and once at its end", () => {
  const { watcher, told } = watch();
  for (const event of [on.busy("ses_r"), on.busy("ses_r"), on.status("ses_r", "retry"), on.busy("ses_r")]) {
    watcher.take(event);
  }
  watcher.take(on.status("ses_r", "idle"));
  watcher.take(on.idle("ses_r"));
  watcher.take(on.status("ses_r", "idle"));
  watcher.take(on.busy("ses_r"));
  expect(told).toEqual(["ses_r started: status busy", "ses_r ended: idle", "ses_r started: status busy"]);
});

test("sessions are told apart", () => {
  const { watcher, told } = watch();
  watcher.take(on.busy("ses_r"));
  watcher.take(on.busy("ses_c"));
  watcher.take(on.status("ses_c", "idle"));
  expect(told).toEqual(["ses_r started: status busy", "ses_c started: status busy", "ses_c ended: idle"]);
});

test("a request between turns gets no answer, and is told as that", () => {
  const { watcher, told } = watch();
  watcher.take(on.asked("ses_1", "per_1"));
  watcher.take(on.question("ses_2", "que_1"));
  watcher.take(on.offline("ses_3", "net_1"));
  expect(told).toEqual([
    "ses_1 started: asks for permission (bash); nobody answers",
    "ses_2 started: asks a question; nobody answers",
    "ses_3 started: its provider is out of reach",
  ]);
});

test("stray words of an idle session are no activity: idles, errors, texts, late messages", () => {
  const { watcher, told } = watch();
  for (const event of [
    on.idle("ses_r"),
    on.status("ses_r", "idle"),
    on.error("ses_r", "MessageAbortedError"),
    on.user("ses_r", "msg_1"),
    on.assistant("ses_r", "msg_2", { done: true }),
    on.text("ses_r", "msg_2", "prt_1", "late", true),
    on.replied("ses_r", "per_1"),
    on.turnClose("ses_r"),
  ]) {
    watcher.take(event);
  }
  expect(told).toEqual([]);
});

test("a turn that begins ends all of it, once", () => {
  const { watcher, told } = watch();
  watcher.take(on.busy("ses_r"));
  watcher.take(on.busy("ses_c"));
  watcher.end("a turn begins");
  watcher.end("a turn begins");
  watcher.take(on.status("ses_r", "idle"));
  expect(told.slice(2)).toEqual(["ses_r ended: a turn begins", "ses_c ended: a turn begins"]);
});

test("a server that starts session after session fills no memory of ours", () => {
  const { watcher, told } = watch();
  for (let number = 0; number < 1000; number += 1) watcher.take(on.busy(`ses_${number}`));
  expect(told).toHaveLength(64);
  watcher.take(on.status("ses_0", "idle"));
  watcher.take(on.busy("ses_last"));
  expect(told.at(-1)).toBe("ses_last started: status busy");
});
