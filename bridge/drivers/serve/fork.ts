/**
 * A fork by the server's own endpoint, checked: it copies every message under a new id, in the same order and with the
 * same times (measured on OpenCode 1.18.33 and Kilo 7.7.7), so the fork's last settled message is the one at the place
 * where the parent's stands.
 */
import { clip, HoldfastError } from "../../../protocol/errors.ts";
import type { ForkedSession } from "../../../protocol/fork.ts";
import type { Locator, TailReference } from "../../../protocol/locator.ts";
import type { ServeApi, StoredMessage } from "./api.ts";
import { missingHistory } from "./history.ts";

/** Throws CONTEXT_LOST when what is there is not the locator's conversation, CLI_NOT_READY when it was not forked whole. */
export async function forkedSession(
  api: Pick<ServeApi, "session" | "messages" | "forkSession">,
  locator: Locator,
): Promise<ForkedSession> {
  const { nativeId, directory } = locator;
  const problem = await missingHistory(api, locator);
  if (problem !== null) throw new HoldfastError("CONTEXT_LOST", problem);
  const before = (await api.messages(nativeId, null)) ?? [];
  const made = await api.forkSession(nativeId, directory);
  if (made.id === nativeId || made.directory !== directory)
    throw new HoldfastError("CLI_NOT_READY", `the fork is no session of its own (${clip(made.id, 64)})`);
  const after = (await api.messages(made.id, null)) ?? [];
  return { nativeId: made.id, directory, tail: tailIn(before, after, locator.tail) };
}

function tailIn(
  before: readonly StoredMessage[],
  after: readonly StoredMessage[],
  tail: TailReference | null,
): TailReference | null {
  const isWhole = before.length === after.length && before.every((message, at) => isCopy(message, after[at]));
  if (!isWhole) throw new HoldfastError("CLI_NOT_READY", "the fork lacks a part of the history");
  if (tail === null) return null;
  const copy = after[before.findIndex(({ info }) => info.id === tail.id)];
  if (copy === undefined) throw new HoldfastError("CONTEXT_LOST", "the history lacks the last settled turn");
  return { role: tail.role, id: copy.info.id };
}

/** The same message under an id of its own: its role, and its parts with their texts. */
function isCopy(message: StoredMessage, copy: StoredMessage | undefined): boolean {
  if (copy === undefined || copy.info.role !== message.info.role || copy.info.id === message.info.id)
    return false;
  return contentOf(message) === contentOf(copy);
}

function contentOf({ parts }: StoredMessage): string {
  return JSON.stringify(parts.map((part) => [part.type, part.text ?? null]));
}
