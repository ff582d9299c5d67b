import { expect, test } from "vitest";
import { readNativeEvent } from "../../../../bridge/drivers/serve/native-event.ts";
import { type Cli, captured, captureNames } from "./native.ts";

const clis: Cli[] = ["opencode", "kilo"];

test("every captured line of both CLIs is known or noise, none is broken", () => {
  for (const cli of clis) {
    for (const name of captureNames(cli)) {
      for (const { data, line } of captured(cli, name)) {
        expect(readNativeEvent(data).kind, `${cli}/${name}:${line}`).not.toBe("broken");
      }
    }
  }
});

test("of the captured types exactly these are noise to us", () => {
  const noise = new Set<string>();
  for (const cli of clis) {
    for (const name of captureNames(cli)) {
      for (const { data } of captured(cli, name)) {
        const read = readNativeEvent(data);
        if (read.kind === "other") noise.add(read.type);
      }
    }
  }
  expect([...noise].sort()).toEqual([
    "sandbox.status.changed",
    "session.compacted",
    "session.drain.interrupted",
    "session.queue.changed",
    "session.updated",
  ]);
});

test("a message and a part carry the session that the event names", () => {
  const user = captured("opencode", "turn-plain").find(({ raw }) => raw.type === "message.updated");
  const read = readNativeEvent(user?.data ?? "");
  expect(read).toMatchObject({
    kind: "known",
    event: { properties: { sessionID: user?.raw.properties.sessionID, info: { role: "user" } } },
  });
});

test("unknown fields and unknown types are ignored", () => {
  expect(
    readNativeEvent(
      `{"type":"session.idle","id":"evt_1","new":[1],"properties":{"sessionID":"ses_1","why":{"a":1}}}`,
    ),
  ).toEqual({ kind: "known", event: { type: "session.idle", properties: { sessionID: "ses_1" } } });
  expect(readNativeEvent(`{"type":"plugin.added","properties":3}`)).toEqual({
    kind: "other",
    type: "plugin.added",
  });
  // The durable events' double: it must decide nothing.
  expect(
    readNativeEvent(`{"type":"sync","syncEvent":{"type":"session.idle.1","data":{"sessionID":"ses_1"}}}`),
  ).toEqual({ kind: "other", type: "sync" });
});

test("what is not JSON, has no type or a known type with another shape is broken, and says where", () => {
  for (const data of ["", "{", "null", "[]", "7", `"x"`, "{}", `{"type":7}`, "<html></html>"]) {
    expect(readNativeEvent(data).kind, data).toBe("broken");
  }
  expect(readNativeEvent(`{"type":"session.idle","properties":{}}`)).toEqual({
    kind: "broken",
    why: "an event session.idle has an unexpected shape at properties.sessionID",
  });
  expect(readNativeEvent(`{"type":"session.status","properties":{"sessionID":"s","status":"busy"}}`)).toEqual(
    {
      kind: "broken",
      why: "an event session.status has an unexpected shape at properties.status",
    },
  );
});

test("an error of the server keeps its name and message only", () => {
  const lines = captured("opencode", "fail-400");
  const error = lines.find(({ raw }) => raw.type === "session.error");
  expect(error?.data).toContain("responseHeaders");
  const read = readNativeEvent(error?.data ?? "");
  expect(read.kind === "known" && read.event.properties).toMatchObject({
    error: { name: "APIError", data: { message: "fake 400" } },
  });
});
