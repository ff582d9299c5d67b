// A desk of requests with a server and a clock that are moved by hand; ends with nothing left open.
import { expect, onTestFinished } from "vitest";
import type { Answer } from "../../../../bridge/drivers/serve/loopback-http.ts";
import {
  type DeskOptions,
  type NativeAsk,
  openRequestDesk,
  type RequestDesk,
  type RequestKind,
} from "../../../../bridge/drivers/serve/request-desk.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

type Reply = string;
type Kind = RequestKind<NativeAsk, Reply>;

interface Closed {
  request: string;
  session: string;
  result: string;
  reply: Reply | null;
  by: string | null;
  detail: string;
}

export interface Bench {
  clock: FakeClock;
  desk: RequestDesk<NativeAsk, Reply>;
  replies: string[];
  /** Each with its deadline, from the start of the clock, or null. */
  asked: Array<[id: string, deadlineMs: number | null]>;
  closed: Closed[];
  unresolved: string[];
  pending: Array<{ id: string; sessionID: string }>;
}

/** What the server does with a reply; by default it answers 200 and keeps nothing pending. */
type OnReply = (id: string, reply: Reply, limitMs: number) => Promise<Answer> | Answer;

interface Options extends Partial<Pick<DeskOptions<NativeAsk, Reply>, "isOurs" | "isAtWork">> {
  /** What is decided at once; null asks the user. */
  decision?: Reply | null;
  onReply?: OnReply;
  onList?: () => void;
}

export function bench(options: Options = {}): Bench {
  const clock = new FakeClock();
  const startAt = clock.nowAt();
  const { onReply = () => ({ status: 200, json: true }), onList = () => undefined } = options;
  const replies: string[] = [];
  const pending: Bench["pending"] = [];
  const kind: Kind = {
    what: "POST /permission/:id/reply",
    decide: () => (options.decision === undefined ? "once" : options.decision),
    waitMs: () => 60_000,
    expired: () => "default",
    async send({ id }, reply, limitMs) {
      replies.push(`${id} ${reply}`);
      return onReply(id, reply, limitMs);
    },
    async pending() {
      onList();
      return pending;
    },
  };
  const asked: Bench["asked"] = [];
  const closed: Closed[] = [];
  const unresolved: string[] = [];
  const desk = openRequestDesk({
    kind,
    clock,
    limitMs: 10_000,
    isOurs: options.isOurs ?? (async (session) => session.startsWith("ses_ours")),
    isAtWork: options.isAtWork ?? (() => false),
    onAsked: ({ id }, deadlineAt) => asked.push([id, deadlineAt === null ? null : deadlineAt - startAt]),
    onClosed: ({ id, session }, { result, reply, by, detail }) =>
      closed.push({ request: id, session, result, reply, by, detail }),
    onUnresolved: (detail) => unresolved.push(detail),
  });
  onTestFinished(async () => {
    desk.close("the test is over");
    await clock.elapse(60_000);
    expect(clock.pending, "timers left").toBe(0);
    expect(desk.pending(), "requests left in the books").toEqual([]);
  });
  return { clock, desk, replies, asked, closed, unresolved, pending };
}

type Desk = Bench["desk"];

export const ask = (desk: Desk, id: string, session = "ses_ours", call: string | null = "call_1") =>
  desk.asked({ id, session, call });

export const answer = (desk: Desk, id: string, reply: Reply = "mine", session = "ses_ours") =>
  desk.answer(session, id, () => reply);

export const status = (code: number) => () => ({ status: code, json: null });

/** Whose a request is stays open until the test says so. */
export function lookUp() {
  let release: (isOurs: boolean) => void = () => undefined;
  const isOurs = () =>
    new Promise<boolean>((resolve) => {
      release = resolve;
    });
  return { isOurs, release: (is: boolean) => release(is) };
}
