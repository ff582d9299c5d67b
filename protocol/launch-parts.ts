/** The parts of a launch, each as a digest: two launches that differ can be told apart by name. Pure; used on both sides. */
import * as z from "zod/mini";
import { Digest } from "./ids.ts";

/** In the order in which a change is told, with the word for it. */
const WORDS = {
  image: "the image",
  cliVersion: "the CLI's version",
  model: "the model",
  configuration: "the configuration",
  policy: "the permission policy",
  environment: "the names in the environment",
} as const;

export type LaunchPart = keyof typeof WORDS;

export const LaunchParts = z.object({
  image: Digest,
  cliVersion: Digest,
  model: Digest,
  configuration: Digest,
  policy: Digest,
  /** Over names alone: values may be secret, and a changed one takes effect with the next process. */
  environment: Digest,
});
export type LaunchParts = z.infer<typeof LaunchParts>;

export const LAUNCH_PARTS = Object.keys(WORDS) as LaunchPart[];

export function changedParts(before: LaunchParts, now: LaunchParts): LaunchPart[] {
  return LAUNCH_PARTS.filter((part) => before[part] !== now[part]);
}

/** What changed, as a reason: "the model changed". */
export function changeReason(before: LaunchParts, now: LaunchParts): string {
  const words = changedParts(before, now).map((part) => WORDS[part]);
  const last = words.pop();
  // Of digests that differ while all parts are alike, only that can be said.
  if (last === undefined) return "the launch configuration changed";
  return `${words.length === 0 ? last : `${words.join(", ")} and ${last}`} changed`;
}
