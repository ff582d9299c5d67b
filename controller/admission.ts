/** What is checked, and made durable, before anything of a turn is sent. */
import { createHash, randomUUID } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import type { Launch } from "../protocol/launch.ts";
import { LAUNCH_PARTS, type LaunchParts } from "../protocol/launch-parts.ts";
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

/** Passes when this very message was admitted as that turn before. Throws TURN_ID_USED: the id is another message's. */
export function checkSameTurn(turn: TurnRow, member: string, text: string): void {
  if (turn.member !== member)
    throw new HoldfastError("TURN_ID_USED", `turn ${turn.id} is of member ${turn.member}, not ${member}`);
  // The text itself is not kept; its digest is, and only well-formed text has one of its own.
  if (!text.isWellFormed() || turn.text_sha256 !== sha256(text))
    throw new HoldfastError("TURN_ID_USED", `turn ${turn.id} was submitted with another text`);
}

/** How the member's CLI is launched for this turn; the digest says whether a resident process still fits. */
export function launchOf(
  member: MemberRow,
  pinned: PinnedBuild,
): { launch: Launch; launchParts: LaunchParts } {
  const { model, permissions, background } = member.options;
  const cliVersion = pinned.clis.find(({ cli }) => cli === member.cli)?.version;
  if (cliVersion === undefined) throw new HoldfastError("CLI_UNKNOWN", `${member.cli} is not in this build`);
  const launchParts: LaunchParts = {
    image: sha256(JSON.stringify([pinned.imageId])),
    cliVersion: sha256(JSON.stringify([member.cli, cliVersion])),
    model: sha256(JSON.stringify(model)),
    configuration: sha256(JSON.stringify([background])),
    policy: sha256(JSON.stringify(permissions)),
    environment: sha256(JSON.stringify(pinned.environment)),
  };
  const digest = sha256(JSON.stringify(LAUNCH_PARTS.map((part) => launchParts[part])));
  return { launch: { cli: member.cli, model, permissions, background, digest }, launchParts };
}

/** The same, or null when the build lacks the member's CLI. */
export function knownLaunch(member: MemberRow, pinned: PinnedBuild): ReturnType<typeof launchOf> | null {
  return pinned.clis.some(({ cli }) => cli === member.cli) ? launchOf(member, pinned) : null;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
