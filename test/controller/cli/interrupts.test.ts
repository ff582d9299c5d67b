import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { orAborted, watchInterrupts } from "../../../controller/cli/interrupts.ts";

test("a press counts once, however many of its signals come at once; a later one is another", () => {
  const source = new EventEmitter();
  let atMs = 0;
  let presses = 0;
  const end = watchInterrupts(
    () => {
      presses += 1;
    },
    { source, nowMs: () => atMs },
  );
  source.emit("SIGINT");
  atMs = 250;
  source.emit("SIGINT");
  source.emit("SIGTERM");
  expect(presses).toBe(1);
  atMs = 600;
  source.emit("SIGTERM");
  expect(presses).toBe(2);
  end();
  expect(source.eventNames()).toEqual([]);
});

test("a result comes through, and so does an error", async () => {
  const { signal } = new AbortController();
  expect(await orAborted(Promise.resolve(1), signal)).toBe(1);
  await expect(orAborted(Promise.reject(new Error("x")), signal)).rejects.toThrow("x");
});

test("an abort is answered at once, before or during the work, and a late failure of the work harms nobody", async () => {
  const stopping = new AbortController();
  const work = Promise.withResolvers<number>();
  const answer = orAborted(work.promise, stopping.signal);
  stopping.abort();
  expect(await answer).toBeNull();
  expect(await orAborted(new Promise(() => undefined), stopping.signal)).toBeNull();
  work.reject(new Error("late"));
});
