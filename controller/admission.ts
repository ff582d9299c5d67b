/** What is checked, and made durable, before anything of a turn is sent. */
import { createHash, randomUUID } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import type { Launch } from "../protocol/launch.ts";
import { LAUNCH_PARTS, type LaunchPart, LaunchParts } from "../protocol/launch-parts.ts";
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
  const facts = launchFacts(member, pinned);
  const partOf = (part: LaunchPart) => [part, sha256(JSON.stringify(facts[part]))];
  const launchParts = LaunchParts.parse(Object.fromEntries(LAUNCH_PARTS.map(partOf)));
  const digest = sha256(launchText(member, pinned));
  return { launch: { cli: member.cli, model, permissions, background, digest }, launchParts };
}

/** The same, or null when the build lacks the member's CLI. */
export function knownLaunch(member: MemberRow, pinned: PinnedBuild): ReturnType<typeof launchOf> | null {
  return pinned.clis.some(({ cli }) => cli === member.cli) ? launchOf(member, pinned) : null;
}

/**
 * All that makes a launch what it is, part by part, as the text of which the digest is made. No secret is in it; of the
 * environment it has the names. Throws CLI_UNKNOWN.
 */
export function launchText(member: MemberRow, pinned: PinnedBuild): string {
  return JSON.stringify(launchFacts(member, pinned));
}

function launchFacts({ cli, options }: MemberRow, pinned: PinnedBuild): Record<LaunchPart, unknown> {
  const version = pinned.clis.find((entry) => entry.cli === cli)?.version;
  if (version === undefined) throw new HoldfastError("CLI_UNKNOWN", `${cli} is not in this build`);
  return {
    image: pinned.imageId,
    cliVersion: { cli, version },
    model: options.model,
    configuration: { background: options.background },
    policy: options.permissions,
    environment: pinned.environment,
  };
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
