/** Questions to the history that a server has loaded: is it the locator's, and was a message stored? */
import type { Locator } from "../../../protocol/locator.ts";
import type { ServeApi, StoredMessage } from "./api.ts";

/** Something is looked for among so many of the newest messages first. */
export const NEWEST_MESSAGES = 50;

/** Why the loaded history is not the locator's, or null when it is (law 8). */
export async function missingHistory(
  api: Pick<ServeApi, "session" | "messages">,
  locator: Locator,
): Promise<string | null> {
  const session = await api.session(locator.nativeId);
  if (session === null) return "the CLI has no session with the saved id";
  if (session.id !== locator.nativeId) return `the CLI resumed another session (${session.id})`;
  if (session.directory !== locator.directory) return "the session belongs to another working directory";
  const { tail } = locator;
  if (tail === null) return null;
  for (const newest of [NEWEST_MESSAGES, null]) {
    const messages = await api.messages(locator.nativeId, newest);
    if (messages === null) return "the CLI has no history for the saved id";
    const found = messages.find(({ info }) => info.id === tail.id);
    if (found !== undefined)
      return found.info.role === tail.role ? null : "the last settled message has another role";
  }
  return "the history lacks the last settled turn";
}

/**
 * What became of a user message. Without parts it counts as absent: for up to 2 s OpenCode may hold the user's row with
 * no parts and no call made (facts, section 15).
 */
export function messageFate(
  messages: StoredMessage[] | null,
  nativeMessage: string,
): "absent" | "present" | "unclear" {
  if (messages === null) return "unclear";
  const stored = messages.find(({ info }) => info.id === nativeMessage);
  return stored === undefined || stored.parts.length === 0 ? "absent" : "present";
}
