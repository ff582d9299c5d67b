import { expect, test } from "vitest";
import { chainOf, hintsOf } from "../../../controller/relay/chain.ts";
import { chatBody, digestOf } from "./calls.ts";

const OWNER = { member: "m-1", nativeId: "ses_host" };
const key = (changes: Partial<ReturnType<typeof digestOf>> = {}, owner: Partial<typeof OWNER> = {}) => {
  const chain = chainOf({ ...OWNER, ...owner }, { ...digestOf(chatBody(["a"])), ...changes });
  return chain.kind === "main" ? chain.key : chain.kind;
};

test("the CLIs' own headers name session and agent", () => {
  const id = "4f0c";
  expect(hintsOf({ "x-claude-code-session-id": id }, null)).toEqual({ session: id, agent: null });
  expect(hintsOf({ "x-claude-code-session-id": id, "x-claude-code-agent-id": "a1" }, null)).toEqual({
    session: id,
    agent: "a1",
  });
  expect(hintsOf({ "x-session-id": "ses_1", "x-session-affinity": "ses_1" }, null)).toEqual({
    session: "ses_1",
    agent: null,
  });
});

test("codex names its main thread twice; a child's thread is an agent of the root's session", () => {
  expect(hintsOf({ "session-id": "root", "thread-id": "root" }, "root")).toEqual({
    session: "root",
    agent: null,
  });
  expect(hintsOf({ "session-id": "root", "thread-id": "child" }, "child")).toEqual({
    session: "root",
    agent: "child",
  });
});

test("a session of the body stands in; what is no plain id names nothing", () => {
  expect(hintsOf({}, "key")).toEqual({ session: "key", agent: null });
  expect(hintsOf({ "x-session-id": "two words" }, null)).toEqual({ session: null, agent: null });
  expect(hintsOf({ "x-session-id": "x".repeat(129) }, null)).toEqual({ session: null, agent: null });
});

test("member, session, agent and model make the chain; nothing else does", () => {
  const keys = [
    key(),
    key({}, { member: "m-2" }),
    key({ session: "ses_2" }),
    key({ agent: "a1" }),
    key({ model: "m2" }),
    key({ session: '","' }),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(key({ bodySha256: "b".repeat(64), blocks: [] })).toBe(key());
});

test("where the CLI names no session the host's stands in, and without one the chain is unknown", () => {
  expect(key({ session: null })).toBe(key({ session: "ses_host" }));
  const nobody = { ...OWNER, nativeId: null };
  expect(chainOf(nobody, { ...digestOf(chatBody(["a"])), session: null })).toEqual({ kind: "unknown" });
  expect(key({ model: null })).toBe("unknown");
  expect(chainOf({ ...OWNER, member: null }, digestOf(chatBody(["a"])))).toEqual({ kind: "unknown" });
});

test("a title, and a summary that is asked for with tools, are none of the conversation", () => {
  const summary = { ...digestOf(chatBody(["a"])), isAside: true };
  expect(chainOf(OWNER, summary)).toEqual({ kind: "aside" });
  expect(chainOf(OWNER, digestOf(chatBody(["title, please"], { tools: [] })))).toEqual({ kind: "aside" });
});
