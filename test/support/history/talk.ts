/**
 * A conversation with a real CLI that is checked at each step: what the model received is compared with all that was ever
 * said, row by row. Keeps the requests, for what is to be said of the chain as a whole.
 */
import { expect } from "vitest";
import type { Settlement } from "../../../protocol/settlement.ts";
import { abortOf } from "../../conformance/suite/subject.ts";
import type { TestHost } from "../host.ts";
import type { ModelRequest } from "../model/records.ts";
import type { StepInput } from "../model/steps.ts";
import { follow, play } from "../turns.ts";
import { until } from "../until.ts";
import { firstDifference } from "./compare.ts";
import { type Entry, expectedRows, type Reply } from "./conversation.ts";
import type { NativeHistory } from "./native.ts";

type FailFirst = Extract<StepInput, { kind: "reply" }>["failFirst"];

export interface TalkOptions {
  t: TestHost;
  native: NativeHistory;
  member: string;
}

export interface Talk {
  readonly member: string;
  readonly entries: readonly Entry[];
  /** Those of the main chain, in order. */
  readonly requests: readonly ModelRequest[];
  /** A turn that completes, its requests compared. */
  say(
    text: string,
    replies?: readonly Reply[],
    failFirst?: ReadonlyArray<FailFirst>,
  ): Promise<Settlement["context"]>;
  fail(text: string): Promise<void>;
  abort(text: string, partial: string): Promise<void>;
  fork(key: string): Promise<Talk>;
}

/** @param entries what was said before; the member has no history of its own yet, or that one */
export function openTalk({ t, native, member }: TalkOptions, entries: Entry[] = []): Talk {
  let said = 0;

  const kept: ModelRequest[] = [];
  const newest = () => t.model.requests().at(-1)?.id ?? 0;

  /** The turn's requests, which came behind that one, each compared with what the model has said up to then. */
  function compared(before: number, text: string, replies: readonly Reply[]): ModelRequest[] {
    const requests = t.model.mainRequests().filter(({ id }) => id > before);
    let round = 0;
    for (const request of requests) {
      const turn: Entry = { kind: "turn", text, replies: replies.slice(0, round) };
      const wanted = expectedRows(native, [...entries, turn]);
      const rows = request.request?.rows ?? [];
      const difference = firstDifference(wanted, rows);
      if (difference !== null)
        throw new Error(`the history of ${JSON.stringify(text.slice(0, 60))}: ${difference}`);
      if (request.ending === "completed") round++;
    }
    kept.push(...requests);
    return requests;
  }

  return {
    member,
    entries,
    requests: kept,
    async say(text, replies = [{ text: `Reply ${said}.` }], failures = []) {
      said++;
      const steps = replies.map(
        (reply, at): StepInput => ({
          kind: "reply",
          ...(reply.text === "" ? {} : { text: [reply.text] }),
          ...(reply.call === undefined ? {} : { toolCalls: [callOf(reply.call)] }),
          ...(failures[at] === undefined ? {} : { failFirst: failures[at] }),
        }),
      );
      t.model.script(text, steps, { times: 1 });
      const before = newest();
      const { settlement } = await play(t, member, text);
      expect(settlement).toMatchObject({ outcome: "completed", settled: true, error: null });
      if (settlement.context === "RESTORED") entries.push({ kind: "restart" });
      const requests = compared(before, text, replies);
      const failed = failures.filter((each) => each !== undefined).length;
      expect(requests).toHaveLength(replies.length + failed);
      entries.push({ kind: "turn", text, replies });
      return settlement.context;
    },
    async fail(text) {
      t.model.script(text, [{ kind: "status", status: 400 }], { times: 1 });
      const before = newest();
      const { settlement } = await play(t, member, text);
      expect(settlement).toMatchObject({ outcome: "failed", settled: true });
      compared(before, text, []);
      entries.push({ kind: "failed", text });
    },
    async abort(text, partial) {
      t.model.script(text, [{ kind: "stall", text: [partial] }], { times: 1 });
      const before = newest();
      const turn = follow(t.host.submit(member, text));
      await until("the half answer", () => turn.seen() === partial, 30_000);
      expect(await abortOf(turn)).toMatchObject({ outcome: "aborted", settled: true });
      compared(before, text, []);
      entries.push({ kind: "aborted", text, partial });
    },
    async fork(key) {
      const { member: child } = await t.host.forkMember({ from: member, key });
      return openTalk({ t, native, member: child }, [...entries]);
    },
  };
}

function callOf({ name, arguments: args }: NonNullable<Reply["call"]>) {
  return { name, arguments: args as Record<string, unknown> };
}
