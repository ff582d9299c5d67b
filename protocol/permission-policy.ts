/**
 * What a member may do: a default and rules by tool and pattern. Pure.
 *
 * Nothing wider than one request is ever granted: a native "always" is server-wide and outlives the turn. The policy is
 * part of the launch digest, so a resumed process never runs under another one than was asked for.
 */
import * as z from "zod/mini";
import type { PermissionRequest } from "./permission.ts";

/** `allow`: each request is allowed once. `deny`: each is rejected. `ask`: the controller's user decides. */
export const PermissionAction = z.enum(["allow", "deny", "ask"]);
export type PermissionAction = z.infer<typeof PermissionAction>;

const Glob = z.string().check(z.minLength(1), z.maxLength(512));

export const PermissionRule = z.object({
  /** The CLI's own word for the tool, or `*`. */
  tool: z.string().check(z.regex(/^(\*|[A-Za-z][\w.:-]*)$/), z.maxLength(128)),
  /** `*` stands for any text, `?` for one character; the whole pattern of the request must fit. */
  pattern: Glob,
  action: PermissionAction,
});
export type PermissionRule = z.infer<typeof PermissionRule>;

export const MemberPolicy = z.object({
  default: PermissionAction,
  /** The last rule that fits decides. */
  rules: z.array(PermissionRule).check(z.maxLength(128)),
  /** How long an `ask` waits for the user, ms. */
  askLimitMs: z.number().check(z.int(), z.positive()),
  /** What happens to an `ask` that nobody answered in time. */
  askDefault: z.enum(["allow", "deny"]),
});
export type MemberPolicy = z.infer<typeof MemberPolicy>;

/** Everything is allowed, once each. */
export const ALLOW_ALL: MemberPolicy = {
  default: "allow",
  rules: [],
  askLimitMs: 300_000,
  askDefault: "deny",
};

const STRICTNESS: Readonly<Record<PermissionAction, number>> = { allow: 0, ask: 1, deny: 2 };

/** The strictest of what the request's patterns get each; a request without patterns is judged as one for `*`. */
export function decidePermission(
  policy: MemberPolicy,
  request: Pick<PermissionRequest, "permission" | "patterns">,
): PermissionAction {
  const patterns = request.patterns.length === 0 ? ["*"] : request.patterns;
  return patterns
    .map((pattern) => decidePattern(policy, request.permission, pattern))
    .reduce((strictest, action) => (STRICTNESS[action] > STRICTNESS[strictest] ? action : strictest));
}

function decidePattern(policy: MemberPolicy, tool: string, pattern: string): PermissionAction {
  const rule = policy.rules.findLast(
    (candidate) =>
      (candidate.tool === "*" || candidate.tool === tool) && fitsGlob(candidate.pattern, pattern),
  );
  return rule?.action ?? policy.default;
}

/** Whether the whole text fits. Linear in text times stars: no pattern can make it slow. */
export function fitsGlob(glob: string, text: string): boolean {
  let at = 0;
  let from = 0;
  let star = -1;
  let mark = 0;
  while (from < text.length) {
    const wanted = glob[at];
    if (wanted === "*") {
      star = at;
      mark = from;
      at += 1;
    } else if (wanted !== undefined && (wanted === "?" || wanted === text[from])) {
      at += 1;
      from += 1;
    } else if (star >= 0) {
      at = star + 1;
      mark += 1;
      from = mark;
    } else {
      return false;
    }
  }
  while (glob[at] === "*") at += 1;
  return at === glob.length;
}

/**
 * Which tools the CLI itself must ask for, so that the policy is heard at all: every one when the default is not
 * `allow` or a rule names no tool, else those that a rule names.
 */
export function askedTools(policy: MemberPolicy): "all" | string[] {
  if (policy.default !== "allow" || policy.rules.some(({ tool }) => tool === "*")) return "all";
  return [...new Set(policy.rules.map(({ tool }) => tool))].sort();
}
