import { expect, test } from "vitest";
import type { NativeSession, StoredMessage } from "../../../../bridge/drivers/serve/api.ts";
import { forkedSession } from "../../../../bridge/drivers/serve/fork.ts";
import { LOCATOR } from "../../../support/samples.ts";

const stored = (id: string, role: "user" | "assistant", text: string): StoredMessage => ({
  info: { id, role, time: { created: 1 } },
  parts: [{ type: "text", text }],
});
const TAIL = LOCATOR.tail?.id ?? "";
const PARENT = [
  stored("msg_1", "user", "hi"),
  stored(TAIL, "assistant", "yes"),
  stored("msg_3", "user", "more"),
];
const COPY = PARENT.map(({ info, parts }, at) => ({ info: { ...info, id: `copy_${at}` }, parts }));

function forked(
  changes: { copy?: StoredMessage[]; made?: Partial<NativeSession>; parent?: StoredMessage[] } = {},
) {
  const parent: NativeSession = { id: LOCATOR.nativeId, directory: LOCATOR.directory };
  const made: NativeSession = { id: "ses_new", directory: LOCATOR.directory, ...changes.made };
  return forkedSession(
    {
      session: async () => parent,
      messages: async (id) => (id === parent.id ? (changes.parent ?? PARENT) : (changes.copy ?? COPY)),
      forkSession: async () => made,
    },
    LOCATOR,
  );
}

test("the fork's tail is the message at the place of the parent's", async () => {
  expect(await forked()).toEqual({
    nativeId: "ses_new",
    directory: LOCATOR.directory,
    tail: { role: "assistant", id: "copy_1" },
  });
});

test("a fork that lacks something, or is no session of its own, is none", async () => {
  const short = COPY.slice(0, -1);
  const other = COPY.map((message, at) => (at === 1 ? stored("copy_1", "assistant", "no") : message));
  const turned = COPY.map((message, at) => (at === 1 ? stored("copy_1", "user", "yes") : message));
  for (const copy of [short, other, turned, PARENT, []])
    await expect(forked({ copy })).rejects.toMatchObject({ code: "CLI_NOT_READY" });
  for (const made of [{ id: LOCATOR.nativeId }, { directory: "/elsewhere" }])
    await expect(forked({ made })).rejects.toMatchObject({ code: "CLI_NOT_READY" });
});

test("a copy without the parent's last settled turn is lost, and nothing is forked", async () => {
  await expect(forked({ parent: PARENT.slice(0, 1) })).rejects.toMatchObject({ code: "CONTEXT_LOST" });
});
