/**
 * What was said in a conversation, and the rows that a request then must have: the user's texts and the model's replies as
 * they were said, and between them what the CLI changes by itself (native.ts). Pure.
 */
import type { ExpectedCall, ExpectedRow, NativePart, Part } from "./expected.ts";
import type { NativeHistory } from "./native.ts";

/** One answer of the model: its text, and the call it made with what the tool said. */
export interface Reply {
  /** "": none. */
  readonly text: string;
  readonly call?: ExpectedCall;
  readonly result?: NativePart;
}

export type Entry =
  /** A turn with all that the model has said in it so far. */
  | { readonly kind: "turn"; readonly text: string; readonly replies: readonly Reply[] }
  /** The provider refused it for good. */
  | { readonly kind: "failed"; readonly text: string }
  /** Aborted by the user, when the model had said so much. */
  | { readonly kind: "aborted"; readonly text: string; readonly partial: string }
  /** Another process took the conversation up. */
  | { readonly kind: "restart" };

/** @param entries the last one is the turn whose request is looked at */
export function expectedRows(native: NativeHistory, entries: readonly Entry[]): ExpectedRow[] {
  const rows: ExpectedRow[] = [];
  let calls = 0;
  let isFirstOfProcess = true;
  /** What goes with the next text in one message. */
  let waiting: Part[] = [];
  let wasAborted = false;
  for (const entry of entries) {
    if (entry.kind === "restart") {
      isFirstOfProcess = true;
      if (wasAborted && native.resumedAbort !== null) {
        rows.push({ role: "user", parts: waiting }, ...native.resumedAbort);
        waiting = [];
      }
      continue;
    }
    const { text } = entry;
    wasAborted = entry.kind === "aborted";
    if (entry.kind === "failed" && native.joint !== null) {
      waiting.push(text + native.joint);
      continue;
    }
    rows.push(...native.message({ text, waiting, isFirst: rows.length === 0, isFirstOfProcess }));
    waiting = [];
    isFirstOfProcess = false;
    if (entry.kind === "aborted") {
      const left = native.aborted(entry.partial);
      rows.push(...left.rows);
      waiting = [...left.next];
    }
    if (entry.kind !== "turn") continue;
    for (const { text: said, call, result } of entry.replies) {
      const parts = said === "" ? [] : [said];
      rows.push({ role: "assistant", parts, ...(call === undefined ? {} : { calls: [call] }) });
      if (result !== undefined) rows.push({ role: "tool", parts: [result], answers: [calls++] });
    }
  }
  return rows;
}
