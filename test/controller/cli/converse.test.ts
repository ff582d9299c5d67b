// The conversation over a host that is played here: what is submitted, and what Ctrl-C does at each point.
import { expect, test } from "vitest";
import { converse } from "../../../controller/cli/converse.ts";
import type { Messages } from "../../../controller/cli/messages.ts";
import type { Host } from "../../../controller/host.ts";
import { createLiveTurn, type LiveTurn } from "../../../controller/turn-handle.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { keptOutput } from "../../support/cli.ts";
import { SETTLEMENT } from "../../support/samples.ts";
import { until } from "../../support/until.ts";

function scene(options: { kept?: string; running?: boolean; refuse?: HoldfastError } = {}) {
  const output = keptOutput();
  const turns: Array<LiveTurn & { text_: string; aborts: number }> = [];
  const typed: string[] = [];
  let wake: (() => void) | null = null;
  let isClosed = false;
  let prompts = 0;
  let press: () => void = () => undefined;

  function makeTurn(text: string) {
    const made = createLiveTurn({
      id: `t-${turns.length}`,
      member: "m-1",
      number: turns.length + 1,
      abort() {
        const turn = turns.find(({ handle }) => handle === made.handle);
        if (turn !== undefined) turn.aborts += 1;
        return Promise.resolve();
      },
    });
    turns.push({ ...made, text_: text, aborts: 0 });
    return made.handle;
  }
  const host = {
    openRequests: () => [],
    submit(_member: string, text: string) {
      if (options.refuse !== undefined) throw options.refuse;
      return makeTurn(text);
    },
    member: () => ({ sandbox: "sb-1" }),
    store: { openTurnsOf: () => (options.running === true ? [{ id: "t-0", member: "m-1" }] : []) },
    running: () => (options.running === true ? makeTurn("earlier") : null),
  } as unknown as Host;
  const messages: Messages = {
    prompt() {
      prompts += 1;
    },
    close() {
      isClosed = true;
      typed.length = 0;
      wake?.();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = typed.shift();
        if (message !== undefined) yield message;
        else if (isClosed) return;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    },
  };
  let members = 0;
  const end = converse({
    host,
    output,
    kept: options.kept ?? null,
    member: () => {
      members += 1;
      return "m-1";
    },
    open(onInterrupt) {
      press = onInterrupt;
      return messages;
    },
  });
  end.catch(() => undefined);
  return {
    output,
    turns,
    end,
    press: () => press(),
    prompts: () => prompts,
    members: () => members,
    type(...lines: string[]) {
      typed.push(...lines);
      wake?.();
    },
    leave() {
      isClosed = true;
      wake?.();
    },
  };
}

const theTurn = (s: ReturnType<typeof scene>, at: number) => until(`turn ${at}`, () => s.turns[at]);

test("messages become turns one after another, empty ones none, and a mere look makes no member", async () => {
  const s = scene();
  await until("a prompt", () => s.prompts() === 1);
  expect(s.members()).toBe(0);
  s.type("", "  \t", " one ", "two");
  (await theTurn(s, 0)).settle(SETTLEMENT);
  (await theTurn(s, 1)).settle({ ...SETTLEMENT, outcome: "failed" });
  s.leave();
  expect(await s.end).toEqual({ failed: 1 });
  expect(s.turns.map(({ text_ }) => text_)).toEqual([" one ", "two"]);
  expect(process.listenerCount("SIGINT")).toBe(0);
});

test("Ctrl-C aborts the turn once and the conversation goes on; without a turn it leaves", async () => {
  const s = scene();
  s.type("one");
  const turn = await theTurn(s, 0);
  s.press();
  expect(turn.aborts).toBe(1);
  expect(s.output.err()).toContain("aborting the turn");
  turn.settle({ ...SETTLEMENT, outcome: "aborted" });
  s.type("two");
  (await theTurn(s, 1)).settle(SETTLEMENT);
  await until("the third prompt", () => s.prompts() === 3);
  s.press();
  expect(await s.end).toEqual({ failed: 1 });
});

test("Ctrl-C twice in a turn leaves it running", async () => {
  const s = scene();
  s.type("one", "never sent");
  const turn = await theTurn(s, 0);
  s.press();
  s.press();
  expect(await s.end).toEqual({ failed: 1 });
  expect(turn.aborts).toBe(1);
  expect(s.turns).toHaveLength(1);
  turn.fail(new HoldfastError("STOPPED"));
});

test("a turn of before that still runs is shown first", async () => {
  const s = scene({ kept: "m-1", running: true });
  const turn = await theTurn(s, 0);
  expect(s.prompts()).toBe(0);
  turn.settle(SETTLEMENT);
  await until("a prompt", () => s.prompts() === 1);
  s.leave();
  expect(await s.end).toEqual({ failed: 0 });
  expect(s.output.err()).toContain("still runs");
});

test("a message that is too large, or a command, is said and passed over; other refusals end the conversation", async () => {
  for (const code of ["MESSAGE_TOO_LARGE", "MESSAGE_IS_COMMAND"] as const) {
    const s = scene({ refuse: new HoldfastError(code) });
    s.type("x");
    await until("the error", () => s.output.err().includes(`[${code}]`));
    s.leave();
    expect(await s.end).toEqual({ failed: 1 });
  }
  const busy = scene({ refuse: new HoldfastError("MEMBER_BUSY") });
  busy.type("x");
  await expect(busy.end).rejects.toMatchObject({ code: "MEMBER_BUSY" });
});
