import { expect, test } from "vitest";
import { watchOtherWork } from "../../../../bridge/drivers/codex/other-work.ts";

function rig() {
  const told: string[] = [];
  return { told, work: watchOtherWork((thread, state, detail) => told.push(`${thread} ${state} ${detail}`)) };
}

test("work is told once at its start and once at its end", () => {
  const { told, work } = rig();
  work.began("a", "1", "turn/started");
  work.began("a", "1", "again");
  expect(work.turnOf("a")).toBe("1");
  work.ended("a", "0");
  work.ended("a", "1");
  work.ended("a", "1");
  expect(work.turnOf("a")).toBeNull();
  expect(told).toEqual(["a started turn/started", "a ended turn/completed"]);
});

test("a turn that follows another on the same thread is the same work, and its own end ends it", () => {
  const { told, work } = rig();
  work.began("a", "1", "x");
  work.began("a", "2", "y");
  work.ended("a", "1");
  expect(work.turnOf("a")).toBe("2");
  work.ended("a", "2");
  expect(told).toHaveLength(2);
});

test("no more than so many threads are followed", () => {
  const { told, work } = rig();
  for (let at = 0; at < 70; at += 1) work.began(`t${at}`, "1", "x");
  expect(told).toHaveLength(64);
  expect(work.turnOf("t69")).toBeNull();
});
