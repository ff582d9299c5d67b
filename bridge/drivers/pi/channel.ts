/**
 * The pipe of a pi process as the driver uses it: own requests with their answers, what our extension says at the start,
 * and dialogs that belong to no turn, which are cancelled: pi would wait for their answer for ever.
 */
import { clip, HoldfastError } from "../../../protocol/errors.ts";
import type { LogFields } from "../../log.ts";
import { createPipeCalls } from "../stdio/pipe-calls.ts";
import type { Pipe } from "../stdio/resident.ts";
import { type DialogReply, dialogReply, readDialog, readStatus } from "./dialog.ts";
import type { Hello } from "./extension/words.ts";
import { Entries, type Response, State, type UiRequest } from "./native-message.ts";

/** Lines that are logged of what pi does beside its turns. Beyond: dropped, the last one says so. */
const NOTES = 20;

export interface PiChannel {
  /** Sends a command and gives its answer, refused ones too. Rejects with CLI_REFUSED after `limitMs`, and for one that the pipe does not take. */
  call(command: Readonly<Record<string, unknown> & { type: string }>, limitMs?: number): Promise<Response>;
  state(limitMs?: number): Promise<State>;
  /** Records behind this one, or all of them; null when pi knows no such record. */
  entriesBehind(id: string | null): Promise<Entries | null>;
  reply(dialog: string, reply: DialogReply): Promise<void>;
  /** What the extension said when the session started; null before. */
  hello(): Hello | null;
  /** An answer to one of our commands. */
  takeAnswer(answer: Response): void;
  /** An extension of pi failed in a handler of this event. */
  takeFault(event: string): void;
  /** A request on the extension channel while no turn is active. */
  takeIdle(request: UiRequest): void;
  fail(error: HoldfastError): void;
}

export function openChannel(pipe: Pipe): PiChannel {
  const { clock, limits, log, slot } = pipe.request;
  let counter = 0;
  let notes = 0;
  let hello: Hello | null = null;
  const calls = createPipeCalls<string, Response>(clock, () => {
    counter += 1;
    return `hf${counter}`;
  });

  function call(
    command: Readonly<Record<string, unknown> & { type: string }>,
    limitMs: number = limits.requestMs,
  ): Promise<Response> {
    const sendMs = Math.min(limitMs, limits.requestMs);
    return calls.call(command.type, limitMs, (id) => pipe.send({ ...command, id }, sendMs));
  }

  /** Its data, when it was granted. */
  async function data(command: Readonly<Record<string, unknown> & { type: string }>, limitMs?: number) {
    const answer = await call(command, limitMs);
    if (answer.success) return answer.data;
    throw new HoldfastError("CLI_REFUSED", clip(`${command.type}: ${answer.error ?? "refused"}`));
  }

  /** What a CLI can do as often as it likes is not logged as often. */
  function note(what: string, fields: LogFields): void {
    notes += 1;
    if (notes <= NOTES) log.info(what, { member: slot.member, ...fields, isLast: notes === NOTES });
  }

  const reply = (dialog: string, value: DialogReply) => pipe.send(dialogReply(dialog, value));

  return {
    call,
    async state(limitMs) {
      const result = State.safeParse(await data({ type: "get_state" }, limitMs));
      if (!result.success)
        throw new HoldfastError("CLI_REFUSED", "the answer to get_state has another shape");
      return result.data;
    },
    async entriesBehind(id) {
      const answer = await call({ type: "get_entries", ...(id === null ? {} : { since: id }) });
      if (!answer.success) {
        if (answer.error?.startsWith("Entry not found") === true) return null;
        throw new HoldfastError("CLI_REFUSED", clip(`get_entries: ${answer.error ?? "refused"}`));
      }
      const result = Entries.safeParse(answer.data);
      if (!result.success)
        throw new HoldfastError("CLI_REFUSED", "the answer to get_entries has another shape");
      return result.data;
    },
    reply,
    hello: () => hello,
    takeAnswer(answer) {
      if (!calls.answered(answer.id, answer)) note("an answer that nobody waits for", {});
    },
    takeFault: (event) => note("an extension of pi failed", { event: event.slice(0, 64) }),
    takeIdle(request) {
      const status = readStatus(request);
      if (status?.say === "hello") hello = status;
      if (readDialog(request) === null) return;
      note("a dialog outside of a turn is cancelled", { method: request.method });
      reply(request.id, { cancelled: true }).catch(() => {
        // The pipe's own end, which is reported as such.
      });
    },
    fail: calls.fail,
  };
}
