import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import extension from "../../../../../bridge/drivers/pi/extension/main.ts";
import type { PiApi, PiContext, PiToolCall } from "../../../../../bridge/drivers/pi/extension/pi-api.ts";
import { SETUP_VARIABLE, type Setup } from "../../../../../bridge/drivers/pi/extension/words.ts";
import { temporaryDirectory } from "../../../../support/temporary-directory.ts";

const SETUP: Setup = {
  model: { name: "m1", contextTokens: 1000, outputTokens: 100 },
  baseUrl: "http://127.0.0.1:1/v1",
  key: "no-key",
  ask: ["bash", "write"],
  offersQuestion: true,
};

/** Pi as the extension sees it: what was registered, shown and asked. */
function pi(reply: () => Promise<string | undefined> = async () => undefined) {
  const handlers = new Map<string, (event: unknown, context: PiContext) => Promise<unknown>>();
  const tools: string[] = [];
  const providers: Array<[string, Record<string, unknown>]> = [];
  const statuses: unknown[] = [];
  const dialogs: Array<{ title: unknown; options: string[]; signal: unknown }> = [];
  const { signal } = new AbortController();
  const branch = [
    { id: "a", parentId: null as string | null },
    { id: "b", parentId: "a" },
  ];
  const context = {
    cwd: "/place/space",
    signal,
    sessionManager: { getBranch: () => branch },
    ui: {
      select(title: string, options: string[], more: { signal?: AbortSignal }) {
        dialogs.push({ title: JSON.parse(title), options, signal: more.signal });
        return reply();
      },
      setStatus: (key: string, text: string) => statuses.push([key, JSON.parse(text)]),
    },
  } as unknown as PiContext;
  const api = {
    on: (event: string, handler: never) => handlers.set(event, handler),
    registerTool: ({ name }: { name: string }) => tools.push(name),
    registerProvider: (name: string, provider: Record<string, unknown>) => providers.push([name, provider]),
  } as unknown as PiApi;
  return {
    api,
    tools,
    providers,
    statuses,
    dialogs,
    branch,
    signal,
    start: () => handlers.get("session_start")?.({}, context),
    call: (toolName: string, input: Record<string, unknown> = {}) =>
      handlers.get("tool_call")?.({ toolName, toolCallId: "c1", input } satisfies PiToolCall, context),
  };
}

const setUp = (changes: Partial<Setup> = {}) =>
  vi.stubEnv(SETUP_VARIABLE, JSON.stringify({ ...SETUP, ...changes }));

beforeEach(() => void setUp());
afterEach(() => void vi.unstubAllEnvs());

test("without its setup it does not load, and pi ends", () => {
  vi.stubEnv(SETUP_VARIABLE, undefined);
  expect(() => extension(pi().api)).toThrow(SETUP_VARIABLE);
});

test("it registers the provider with the model's own limits, and the question tool where it is offered", () => {
  const { api, providers, tools } = pi();
  extension(api);
  expect(providers).toMatchObject([
    [
      "holdfast",
      {
        baseUrl: "http://127.0.0.1:1/v1",
        apiKey: "no-key",
        api: "openai-completions",
        models: [{ id: "m1", contextWindow: 1000, maxTokens: 100 }],
      },
    ],
  ]);
  expect(tools).toEqual(["question"]);
  setUp({ offersQuestion: false });
  const without = pi();
  extension(without.api);
  expect(without.tools).toEqual([]);
});

test("a call that must ask runs when it is allowed, and its dialog ends with the turn", async () => {
  const { api, call, dialogs, statuses, signal } = pi(async () => "allow");
  extension(api);
  expect(await call("write", { path: "../x" })).toBeUndefined();
  expect(dialogs).toEqual([
    {
      title: { say: "permission", call: "c1", tool: "write", patterns: ["/place/x"] },
      options: ["allow", "reject"],
      signal,
    },
  ]);
  expect(statuses).toEqual([["holdfast", { say: "decided", call: "c1", isAllowed: true }]]);
});

test.each([["reject"], ["Allow"], [""], [undefined]])(
  "the answer %s blocks the call, with a reason for the model",
  async (reply) => {
    const { api, call, statuses } = pi(async () => reply);
    extension(api);
    expect(await call("bash", { command: "ls" })).toEqual({ block: true, reason: expect.any(String) });
    expect(statuses).toEqual([["holdfast", { say: "decided", call: "c1", isAllowed: false }]]);
  },
);

test("a dialog that can't be shown throws out of the hook: pi blocks the call then", async () => {
  const { api, call } = pi(() => Promise.reject(new Error("no UI")));
  extension(api);
  await expect(call("bash", { command: "ls" })).rejects.toThrow("no UI");
});

test("a tool that need not ask is let pass unasked; with the word for all of them none is, but the question itself", async () => {
  const some = pi();
  extension(some.api);
  expect(await some.call("read", { path: "x" })).toBeUndefined();
  expect(some.dialogs).toEqual([]);
  setUp({ ask: "all" });
  const all = pi();
  extension(all.api);
  expect(await all.call("read", { path: "x" })).toMatchObject({ block: true });
  expect(await all.call("brand_new")).toMatchObject({ block: true });
  expect(await all.call("question")).toBeUndefined();
  expect(all.dialogs).toHaveLength(2);
});

test("at the start it says which pi it runs in, where, and whether the history is whole", async () => {
  const program = process.argv[1];
  onTestFinished(() => {
    process.argv[1] = program ?? "";
  });
  // A package of pi's form: the entry is two folders below its own description.
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "dist/bundle"), { recursive: true });
  writeFileSync(join(directory, "package.json"), '{"version":"1.6.1"}');
  const entry = join(directory, "dist/bundle/cli.js");
  writeFileSync(entry, "");
  process.argv[1] = entry;
  const { api, start, statuses, branch } = pi();
  extension(api);
  await start();
  branch.shift();
  await start();
  branch.shift();
  await start();
  const hello = { say: "hello", version: "1.6.1", cwd: "/place/space" };
  expect(statuses).toEqual([
    ["holdfast", { ...hello, entries: 2, isWhole: true }],
    ["holdfast", { ...hello, entries: 1, isWhole: false }],
    ["holdfast", { ...hello, entries: 0, isWhole: true }],
  ]);
});

test("a program without a description of its own says nothing: the driver takes that for no extension", async () => {
  const program = process.argv[1];
  onTestFinished(() => {
    process.argv[1] = program ?? "";
  });
  process.argv[1] = join(temporaryDirectory(), "none.js");
  const { api, start, statuses } = pi();
  extension(api);
  await expect(start()).rejects.toThrow();
  expect(statuses).toEqual([]);
});
