/** What is checked, and made durable, before anything of a turn is sent. */
import { createHash, randomUUID } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import type { Launch } from "../protocol/launch.ts";
import { textProblem } from "../protocol/user-text.ts";
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
  const found = store.member(member);
  if (found === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${member}`);
  const problem = textProblem(found.cli, text);
  if (problem !== null) throw problem;
  const id = turnId ?? `turn-${randomUUID()}`;
  if (!OurId.safeParse(id).success)
    throw new HoldfastError("REQUEST_INVALID", `${id} can't be the id of a turn`);
  return store.admit({ id, member, textSha256: sha256(text), textBytes: Buffer.byteLength(text) });
}

/** How the member's CLI is launched for this turn; the digest says whether a resident process still fits. */
export function launchOf(member: MemberRow, pinned: PinnedBuild): Launch {
  const { model, permissions, background } = member.options;
  const cliVersion = pinned.clis.find(({ cli }) => cli === member.cli)?.version;
  if (cliVersion === undefined) throw new HoldfastError("CLI_UNKNOWN", `${member.cli} is not in this build`);
  const digest = sha256(
    JSON.stringify([pinned.imageId, member.cli, cliVersion, model, permissions, background]),
  );
  return { cli: member.cli, model, permissions, background, digest };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
