import { expect, test } from "vitest";
import type { NativeSession, ServeApi, StoredMessage } from "../../../../bridge/drivers/serve/api.ts";
import { messageFate, missingHistory, NEWEST_MESSAGES } from "../../../../bridge/drivers/serve/history.ts";
import type { Locator } from "../../../../protocol/locator.ts";
import { LOCATOR } from "../../../support/samples.ts";

const stored = (id: string, role: "user" | "assistant", parts = 1): StoredMessage => ({
  info: { id, role, time: { created: 1 } },
  parts: Array.from({ length: parts }, () => ({ type: "text" })),
});

const session: NativeSession = { id: "ses_1", directory: "/workspace" };

function api(answers: { session?: NativeSession | null; messages?: StoredMessage[] | null }): {
  api: ServeApi;
  asked: (number | null)[];
} {
  const asked: (number | null)[] = [];
  const fake: Pick<ServeApi, "session" | "messages"> = {
    session: async () => (answers.session === undefined ? session : answers.session),
    messages: async (_session, newest) => {
      asked.push(newest);
      const all = answers.messages === undefined ? [stored("msg_9", "assistant")] : answers.messages;
      return all === null || newest === null ? all : all.slice(-newest);
    },
  };
  return { api: fake as ServeApi, asked };
}

test("the history is the locator's: the id, the directory and the last settled message are there", async () => {
  const { api: asks, asked } = api({});
  expect(await missingHistory(asks, LOCATOR)).toBeNull();
  expect(asked).toEqual([NEWEST_MESSAGES]);
});

test("a tail beyond the newest messages is looked for in the whole history", async () => {
  const messages = [
    stored("msg_9", "assistant"),
    ...Array.from({ length: 80 }, (_, n) => stored(`m${n}`, "user")),
  ];
  const { api: asks, asked } = api({ messages });
  expect(await missingHistory(asks, LOCATOR)).toBeNull();
  expect(asked).toEqual([NEWEST_MESSAGES, null]);
});

test.each<[string, Parameters<typeof api>[0], Partial<Locator>, RegExp]>([
  ["no such session", { session: null }, {}, /no session with the saved id/],
  ["another id", { session: { ...session, id: "ses_2" } }, {}, /resumed another session \(ses_2\)/],
  [
    "another directory",
    { session: { ...session, directory: "/elsewhere" } },
    {},
    /another working directory/,
  ],
  ["no history", { messages: null }, {}, /no history/],
  ["an empty history", { messages: [] }, {}, /lacks the last settled turn/],
  ["a cut history", { messages: [stored("msg_8", "assistant")] }, {}, /lacks the last settled turn/],
  ["another role", { messages: [stored("msg_9", "user")] }, {}, /another role/],
])("%s is named as what is missing", async (_what, answers, changes, reason) => {
  expect(await missingHistory(api(answers).api, { ...LOCATOR, ...changes })).toMatch(reason);
});

test("a locator whose turns left no message needs its session alone", async () => {
  const { api: asks, asked } = api({ messages: [] });
  expect(await missingHistory(asks, { ...LOCATOR, tail: null })).toBeNull();
  expect(asked).toEqual([]);
});

test("a server that can't answer is no lost history: the error passes", async () => {
  const broken = { session: () => Promise.reject(new Error("500")) } as unknown as ServeApi;
  await expect(missingHistory(broken, LOCATOR)).rejects.toThrow("500");
});

test("a message is present with parts, absent without them or without a row, unclear without a history", () => {
  expect(messageFate([stored("m1", "user")], "m1")).toBe("present");
  expect(messageFate([stored("m1", "user", 0)], "m1")).toBe("absent");
  expect(messageFate([stored("m0", "user")], "m1")).toBe("absent");
  expect(messageFate([], "m1")).toBe("absent");
  expect(messageFate(null, "m1")).toBe("unclear");
});
