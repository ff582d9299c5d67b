// The way from a process in a sandbox to the model, over a whole host: whose a call is, and until when it may ask.
import { text as textOf } from "node:stream/consumers";
import { expect, test } from "vitest";
import { modelToken } from "../../bridge/model-token.ts";
import type { ControlEvent } from "../../protocol/events.ts";
import { type FakeHost, startFakeHost } from "../support/fake-host.ts";
import { until, within } from "../support/until.ts";
import { type CallOptions, open, send, upstream } from "./relay/rig.ts";

const ANSWER = JSON.stringify({
  id: "chatcmpl-1",
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 1 },
});

async function scene() {
  const model = await upstream(
    (call, reply) =>
      void call.resume().on("end", () => {
        if (call.headers["x-wait"] === undefined) reply.end(ANSWER);
        else reply.writeHead(200).write("first");
      }),
  );
  const route = { protocol: "chat-completions", baseUrl: model.url } as const;
  const fake = await startFakeHost({
    relay: {
      routes: [
        { ...route, name: "main", key: "sk-main" },
        { ...route, name: "side", key: "sk-side" },
      ],
    },
  });
  const member = fake.member();
  await fake.host.startSandbox("box");
  const process = (state: "started" | "ready" | "retired", processGeneration = 1): ControlEvent => ({
    type: "member.process",
    member,
    processGeneration,
    state,
    detail: "",
  });
  /** Asks as that process of the member would. */
  const as = (
    processGeneration: number,
    changes: { epoch?: number; member?: string } = {},
    call: CallOptions = {},
  ) => {
    const caller = { member, epoch: fake.bridge().epoch, processGeneration, ...changes };
    const authorization = `Bearer ${modelToken(fake.bridge().ownToken(), caller)}`;
    return { ...call, body: "{}", headers: { ...call.headers, authorization } };
  };
  const socketOf = (sandbox = "box") => `${fake.directory}/s/${sandbox}/model.sock`;
  return { model, fake, member, process, as, socketOf };
}

const calls = (fake: FakeHost, member: string) => fake.host.store.calls.list({ member }, 10);

test("a call is its member's, and its turn's while one is active; with none it is unrequested", async () => {
  const { fake, member, as, socketOf, process } = await scene();
  fake.host.submit(member, "hello", { id: "t-1" });
  const bridge = fake.bridge();
  await bridge.untilAsked("turn.submit");
  bridge.emit(process("started"));
  bridge.emit({ type: "turn.context", turn: "t-1", member, status: "NEW", reason: "", nativeId: "ses_1" });
  await until("the context", () => fake.host.store.eventsOf("t-1").length === 2);
  expect((await send(socketOf(), as(1))).status).toBe(200);
  await until("the record", () => calls(fake, member).length === 1);
  bridge.end();
  await until("the end", () => fake.host.turn("t-1").settlement);
  expect((await send(socketOf(), as(1))).status).toBe(200);
  await until("the record", () => calls(fake, member).length === 2);
  expect(calls(fake, member)).toMatchObject([
    { turn: null, processGeneration: 1, member, sandbox: "box", outcome: "completed" },
    { turn: "t-1", processGeneration: 1, nativeId: "ses_1", route: "main", usage: { state: "known" } },
  ]);
});

test("a member's own route is taken from its next call on, and no other process has to start for it", async () => {
  const { fake, member, model, as, socketOf } = await scene();
  await send(socketOf(), as(1));
  fake.host.changeMember(member, { route: "side" });
  await send(socketOf(), as(1));
  fake.host.changeMember(member, { route: "none" });
  const { status, body } = await send(socketOf(), as(1));
  expect([status, JSON.parse(body).error.code]).toEqual([404, "holdfast_route_missing"]);
  expect(model.seen.map(({ headers }) => headers.authorization)).toEqual([
    "Bearer sk-main",
    "Bearer sk-side",
  ]);
});

test("when its process has ended, what runs is cut, and nothing more is let through", async () => {
  const { fake, member, as, socketOf, process } = await scene();
  const bridge = fake.bridge();
  bridge.emit(process("ready"));
  const { answer } = open(socketOf(), as(1, {}, { headers: { "x-wait": "1" } }));
  const response = await answer;
  bridge.emit(process("retired"));
  await expect(within("the cut", textOf(response))).rejects.toMatchObject({ code: "ECONNRESET" });
  await until("the record", () => calls(fake, member).length === 1);
  expect(calls(fake, member)[0]).toMatchObject({ outcome: "revoked", status: 200 });
  expect((await send(socketOf(), as(1))).status).toBe(401);
  expect((await send(socketOf(), as(2))).status).toBe(200);
});

test("a token of another sandbox, another member or another life of the bridge is refused", async () => {
  const { fake, as, socketOf } = await scene();
  const other = fake.member("other");
  await fake.host.startSandbox("other");
  expect((await send(socketOf("other"), as(1))).status).toBe(401);
  expect((await send(socketOf(), as(1, { member: other }))).status).toBe(401);
  expect((await send(socketOf(), as(1, { member: "m-none" }))).status).toBe(401);
  expect((await send(socketOf(), as(1, { epoch: 7 }))).status).toBe(401);
  const plain = { body: "{}", headers: { authorization: "Bearer holdfast-no-key" } };
  const { status, body } = await send(socketOf(), plain);
  expect([status, JSON.parse(body).error]).toEqual([
    401,
    expect.objectContaining({ code: "invalid_api_key" }),
  ]);
});

test("after a restart of the controller the same process goes on with its token, and an ended one does not", async () => {
  const { fake, as, socketOf, process } = await scene();
  const bridge = fake.bridge();
  bridge.emit(process("ready"));
  bridge.emit(process("ready", 2));
  await until("the events", () => fake.host.store.residents()[0]?.generation === 2);
  await fake.reopen();
  // It has residents, so that its socket is there before the bridge has dialled again.
  expect((await send(socketOf(), as(2))).status).toBe(200);
  expect((await send(socketOf(), as(1))).status).toBe(401);
});

test("a closing host cuts what runs and keeps its record", async () => {
  const { fake, member, as, socketOf } = await scene();
  const { answer } = open(socketOf(), as(1, {}, { headers: { "x-wait": "1" } }));
  const response = await answer;
  await fake.reopen();
  await expect(within("the cut", textOf(response))).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(calls(fake, member)).toMatchObject([{ outcome: "cut" }]);
  expect(fake.warnings.filter((text) => text.includes("not recorded"))).toEqual([]);
});

test("S14: with a budget of one token no call goes out; one that fits spends what the provider counted", async () => {
  const { fake, member, model, as, socketOf } = await scene();
  expect(fake.host.budgetOf(member)).toBeNull();
  fake.host.setBudget(member, 1);
  const refused = await send(socketOf(), as(1));
  expect([refused.status, JSON.parse(refused.body).error.code]).toEqual([400, "holdfast_budget_exhausted"]);
  expect(model.seen).toEqual([]);
  fake.host.setBudget(member, 1000);
  expect((await send(socketOf(), as(1))).status).toBe(200);
  await until("the settlement", () => fake.host.budgetOf(member)?.spentTokens === 4);
  expect(fake.host.budgetOf(member)).toMatchObject({ limitTokens: 1000, spentTokens: 4, reservedTokens: 0 });
  fake.host.setBudget(member, null);
  expect((await send(socketOf(), as(1))).status).toBe(200);
});

test("S14: what a dead controller's call had reserved is spent, and not given again", async () => {
  const { fake, member } = await scene();
  fake.host.setBudget(member, 1000);
  fake.host.store.calls.budgets.reserve("call-1", member, 100);
  await fake.reopen();
  expect(fake.host.budgetOf(member)).toMatchObject({
    limitTokens: 1000,
    spentTokens: 1000,
    reservedTokens: 0,
  });
});
