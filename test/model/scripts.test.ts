// Which step answers, in each protocol: by the turn's own text and by the rounds that followed it in the received history.
import { expect, test } from "vitest";
import { ask, assistant, call, result, startForTest, user } from "./client.ts";
import { WIRES } from "./wires.ts";

const toolStep = { kind: "reply" as const, toolCalls: [{ name: "bash", arguments: { command: "ls" } }] };

for (const wire of WIRES) {
  test(`the rounds after the last user message decide the step, whatever was before it, ${wire.name}`, async () => {
    const server = await startForTest();
    server.script("list it", [toolStep, toolStep, "Listed."]);
    const before = [user("hello"), assistant("Hi."), user("list it")];
    const one = [assistant(null, [call("c1")]), result("c1", "a.txt")];
    const two = [assistant("more", [call("c2"), call("c3")]), result("c2", "b"), result("c3", "c")];
    expect((await ask(server, { wire, messages: before })).calls).toHaveLength(1);
    expect((await ask(server, { wire, messages: [...before, ...one] })).calls).toHaveLength(1);
    expect((await ask(server, { wire, messages: [...before, ...one, ...two] })).text).toBe("Listed.");
    expect(server.requests().map(({ answer }) => answer?.round)).toEqual([0, 1, 2]);
  });

  test(`a restarted model goes on with the step that the history asks for, ${wire.name}`, async () => {
    const messages = [user("list it"), assistant(null, [call("c1")]), result("c1", "a.txt")];
    const server = await startForTest();
    server.script("list it", [toolStep, "Listed."]);
    expect((await ask(server, { wire, messages })).text).toBe("Listed.");
  });

  test(`past the last step the reply is a plain end, so that no tool loop runs on, ${wire.name}`, async () => {
    const server = await startForTest();
    server.script("go", [toolStep]);
    const messages = [user("go"), assistant(null, [call("c1")]), result("c1", "x")];
    expect(await ask(server, { wire, messages })).toMatchObject({ text: "Done.", calls: [] });
  });

  test(`a script with a number of turns serves rounds and retries of a turn as one, ${wire.name}`, async () => {
    const server = await startForTest();
    server.script(/^go$/, [{ ...toolStep, failFirst: { times: 1, status: 500 } }, "first"], { times: 1 });
    server.script("go", ["second"]);
    const rounds = [assistant(null, [call("c1")]), result("c1", "x")];
    expect((await ask(server, { wire, user: "go" })).status).toBe(500);
    expect((await ask(server, { wire, user: "go" })).calls).toHaveLength(1);
    expect((await ask(server, { wire, messages: [user("go"), ...rounds] })).text).toBe("first");
    expect((await ask(server, { wire, messages: [user("go"), ...rounds, user("go")] })).text).toBe("second");
  });

  test(`the same first message after a delivered reply is a new turn, ${wire.name}`, async () => {
    const server = await startForTest();
    server.queue(["one"]);
    server.queue(["two"]);
    server.setDefault(["rest"]);
    const texts = [];
    for (let at = 0; at < 3; at++) texts.push((await ask(server, { wire, user: "go" })).text);
    expect(texts).toEqual(["one", "two", "rest"]);
    expect(server.requests().map(({ answer }) => answer?.source)).toEqual(["queue", "queue", "default"]);
  });

  test(`a directive in the user's text is the script of its turn, ${wire.name}`, async () => {
    const server = await startForTest();
    const text = `please @model[{"kind":"reply","toolCalls":[{"name":"bash","arguments":{"command":"echo ]}\\""}}]},"It's [done]."] thanks`;
    const first = await ask(server, { wire, user: text });
    expect(first.calls[0]?.arguments).toBe('{"command":"echo ]}\\""}');
    const messages = [user(text), assistant(null, [call("c1")]), result("c1", "x")];
    expect((await ask(server, { wire, messages })).text).toBe("It's [done].");
  });

  test(`a broken directive is refused and says why, ${wire.name}`, async () => {
    const server = await startForTest();
    for (const text of ["@model[", "@model[}]", '@model[{"kind":"nope"}]']) {
      expect((await ask(server, { wire, user: text })).status).toBe(400);
    }
    for (const each of server.requests()) expect(each).toMatchObject({ ending: "refused" });
    expect(server.requests().map(({ fault }) => fault?.split(":")[0])).toEqual([
      "@model directive",
      "@model directive",
      "not a script",
    ]);
  });

  test(`title and summary requests get their own short replies and take no script of a turn, ${wire.name}`, async () => {
    const server = await startForTest({ recall: true });
    server.script("go", ["main"], { times: 1 });
    const system = "You are a title generator.";
    expect((await ask(server, { wire, user: "go", system, tools: false })).text).toBe("Loopback chat");
    const transcript = "<conversation>user: go</conversation>";
    expect((await ask(server, { wire, user: transcript, tools: false })).text).toContain("summary");
    expect((await ask(server, { wire, user: "go" })).text).toBe("main");
    expect(server.requests().map(({ purpose }) => purpose)).toEqual(["title", "summary", "main"]);
    expect(server.mainRequests().map(({ id }) => id)).toEqual([3]);
  });

  test(`a summary can be scripted apart, ${wire.name}`, async () => {
    const server = await startForTest();
    server.script("", [{ kind: "status", status: 500 }], { purpose: "summary" });
    const reply = await ask(server, { wire, user: "x", system: "Summarize the conversation.", tools: false });
    expect(reply.status).toBe(500);
    expect((await ask(server, { wire, user: "x" })).text).toBe("OK.");
  });

  test(`reset forgets scripts and records, ${wire.name}`, async () => {
    const server = await startForTest();
    server.script("go", ["scripted"]);
    await ask(server, { wire, user: "go" });
    server.reset();
    expect(server.requests()).toEqual([]);
    expect((await ask(server, { wire, user: "go" })).text).toBe("OK.");
  });
}

test("a call may name what the newest tool result says, which the CLI alone knows; what is not there stays as written", async () => {
  const server = await startForTest();
  const arguments_ = { target: "$result.agent_id", other: "$result.none" };
  server.script("go", [toolStep, { kind: "reply", toolCalls: [{ name: "wait", arguments: arguments_ }] }]);
  const earlier = [assistant(null, [call("c1")]), result("c1", '{"agent_id":"a-1"}')];
  const reply = await ask(server, { messages: [user("go"), ...earlier] });
  expect(JSON.stringify(reply.calls)).toContain("a-1");
  expect(JSON.stringify(reply.calls)).toContain("$result.none");
});
