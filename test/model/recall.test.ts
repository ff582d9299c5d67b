// Recall mode: the answer is in the request's own earlier user messages, or it is not given.
import { expect, test } from "vitest";
import { ask, assistant, call, result, startForTest, user } from "./client.ts";
import { type Message, WIRES } from "./wires.ts";

const NOT_FOUND = "I can't find a code word in this conversation.";

async function recalled(...messages: Message[]): Promise<string> {
  const server = await startForTest({ recall: true });
  return (await ask(server, { messages })).text;
}

for (const question of [
  "What is the code word?",
  "what was the code word I told you",
  "Which codeword did I give you earlier?",
  "Please tell me the code word.",
  "Do you remember what the code word is?",
  "Reply with the code word only.",
]) {
  test(`recalls when asked: ${question}`, async () => {
    const told = user("Remember this: the code word is PLUM-7.");
    expect(await recalled(told, assistant("ok"), user(question))).toBe("The code word is PLUM-7.");
    expect(await recalled(user("hello"), assistant("ok"), user(question))).toBe(NOT_FOUND);
  });
}

test("telling a word is noted, in various forms", async () => {
  expect(await recalled(user("The code word is Größe. Please remember it."))).toBe("Noted: Größe.");
  expect(await recalled(user('code word: "ÅÄÖ_1"'))).toBe("Noted: ÅÄÖ_1.");
  expect(await recalled(user("My secret word is *fig*, what do you say?"))).toBe("Noted: fig.");
});

test("the latest statement counts", async () => {
  const told = ["The code word is FIG.", "Now the code word is PLUM.", "How are you?"].map(user);
  expect(await recalled(...told, user("What is the code word?"))).toBe("The code word is PLUM.");
});

test("only earlier user messages count, not the assistant's, the system's or a forgotten one", async () => {
  const question = user("What is the code word?");
  expect(await recalled(user("hi"), assistant("The code word is FIG."), question)).toBe(NOT_FOUND);
  const server = await startForTest({ recall: true });
  await ask(server, { user: "The code word is FIG." });
  const reply = await ask(server, { system: "The code word is FIG.", messages: [user("hi"), question] });
  expect(reply.text).toBe(NOT_FOUND);
});

test("text parts beside the user's own are read as well", async () => {
  const parts = [
    { type: "text", text: "The code word is FIG." },
    { type: "text", text: "<environment_details>\nMessage time: now</environment_details>" },
  ];
  expect(await recalled(user(parts), user("What is the code word?"))).toBe("The code word is FIG.");
});

test("anything else gets a short neutral reply", async () => {
  expect(await recalled(user("Hello there"))).toBe("All right.");
});

test("a script comes before recall", async () => {
  const server = await startForTest({ recall: true });
  server.script("slow", ["scripted"]);
  expect((await ask(server, { user: "slow" })).text).toBe("scripted");
});

for (const wire of WIRES) {
  test(`recalls over the rounds of a history, ${wire.name}`, async () => {
    const server = await startForTest({ recall: true });
    const told = [user("The code word is FIG."), assistant("Noted.", [call("c1")]), result("c1", "done")];
    const messages = [...told, assistant("ok"), user("What is the code word?")];
    expect((await ask(server, { wire, messages })).text).toBe("The code word is FIG.");
    expect((await ask(server, { wire, messages: messages.slice(1) })).text).toBe(NOT_FOUND);
    expect(server.requests()[0]?.answer).toMatchObject({ source: "recall", round: 0 });
  });
}
