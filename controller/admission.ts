/** What is checked, and made durable, before anything of a turn is sent. */
import { createHash, randomUUID } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import type { Launch } from "../protocol/launch.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { PinnedBuild } from "./sandboxes/sandbox.ts";
import type { MemberRow, TurnRow } from "./store/records.ts";
import type { Store } from "./store/store.ts";

/** Admits a user's text as a turn of the member; durable at its return. Throws before that, and then nothing is kept. */
export function admitTurn(
  store: Store,
  member: string,
  text: string,
  turnId: string | undefined,
): { turn: TurnRow; member: MemberRow } {
  if (text === "") throw new HoldfastError("MESSAGE_EMPTY");
  const bytes = Buffer.byteLength(text);
  if (bytes > LIMITS.userTextBytes) {
    throw new HoldfastError(
      "MESSAGE_TOO_LARGE",
      `the message has ${bytes} bytes, the limit is ${LIMITS.userTextBytes}`,
    );
  }
  // A lone surrogate has no UTF-8 form: the model would get another text than was submitted.
  if (!text.isWellFormed())
    throw new HoldfastError("REQUEST_INVALID", "the message is not well-formed Unicode");
  const id = turnId ?? `turn-${randomUUID()}`;
  if (!OurId.safeParse(id).success)
    throw new HoldfastError("REQUEST_INVALID", `${id} can't be the id of a turn`);
  return store.admit({ id, member, textSha256: sha256(text), textBytes: bytes });
}

/** How the member's CLI is launched for this turn; the digest says whether a resident process still fits. */
export function launchOf(member: MemberRow, pinned: PinnedBuild): Launch {
  const { model, permissions, background } = member.options;
  const digest = sha256(launchText(member, pinned));
  return { cli: member.cli, model, permissions, background, digest };
}

/** All that makes a launch what it is, as the text of which the digest is made. No secret is in it. Throws CLI_UNKNOWN. */
export function launchText({ cli, options }: MemberRow, { imageId, clis }: PinnedBuild): string {
  const cliVersion = clis.find((entry) => entry.cli === cli)?.version;
  if (cliVersion === undefined) throw new HoldfastError("CLI_UNKNOWN", `${cli} is not in this build`);
  const { model, permissions, background } = options;
  return JSON.stringify({ image: imageId, cli, cliVersion, model, permissions, background });
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
