import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { readMessage, rootSession } from "../../../../bridge/drivers/claude/native-message.ts";
import { rowsOf } from "./captured.ts";

const recordings = readdirSync(new URL("../../../captures/claude/", import.meta.url))
  .map((name) => name.replace(/\.ndjson$/, ""))
  .filter((name) => name !== "retry-transcript-chain");

test.each(recordings)(
  "every line that the CLI printed in %s is known or of no interest, and none is broken",
  (name) => {
    const printed = rowsOf(name).filter(({ ch }) => ch.endsWith("stdout"));
    expect(printed.length).toBeGreaterThan(0);
    const broken = printed.flatMap(({ d }) => {
      const reading = readMessage(d);
      return reading.kind === "broken" ? [reading.why] : [];
    });
    expect(broken).toEqual([]);
  },
);

test("what decides something is read, unknown fields of it are kept out, and unknown kinds are of no interest", () => {
  const retry = {
    type: "system",
    subtype: "api_retry",
    attempt: 2,
    retry_delay_ms: 500,
    error: "overloaded",
    x: 1,
  };
  expect(readMessage(retry)).toEqual({
    kind: "known",
    message: { type: "system", subtype: "api_retry", attempt: 2, retry_delay_ms: 500, error: "overloaded" },
  });
  for (const raw of [{}, { type: "news" }, { type: "system", subtype: "news" }, { type: 7 }])
    expect(readMessage(raw)).toEqual({ kind: "other" });
});

test("a known kind in a shape that it never had is broken, and says where", () => {
  const cases: Array<[Record<string, unknown>, string]> = [
    [{ type: "result", subtype: "success" }, "result"],
    [{ type: "control_request", request_id: 7, request: {} }, "control_request"],
    [{ type: "assistant", uuid: "u", message: { id: "m", content: "text" } }, "message.content"],
    [{ type: "system", subtype: "background_tasks_changed", tasks: null }, "tasks"],
  ];
  for (const [raw, where] of cases) {
    const reading = readMessage(raw);
    expect(reading.kind, where).toBe("broken");
    if (reading.kind === "broken") expect(reading.why).toContain(where);
  }
});

test("B6: the root's session is named by what carries no parent call; children and control messages name none", () => {
  expect(rootSession({ type: "system", session_id: "s" })).toBe("s");
  expect(rootSession({ type: "assistant", session_id: "s", parent_tool_use_id: null })).toBe("s");
  expect(rootSession({ type: "assistant", session_id: "child", parent_tool_use_id: "toolu_1" })).toBeNull();
  expect(rootSession({ type: "control_request", request_id: "r" })).toBeNull();
  expect(rootSession({ session_id: "" })).toBeNull();
  expect(rootSession({ session_id: 7 })).toBeNull();
});
