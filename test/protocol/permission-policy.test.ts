import fc from "fast-check";
import { expect, test } from "vitest";
import {
  ALLOW_ALL,
  askedTools,
  decidePermission,
  fitsGlob,
  MemberPolicy,
  type PermissionAction,
  type PermissionRule,
} from "../../protocol/permission-policy.ts";

const rule = (tool: string, pattern: string, action: PermissionAction): PermissionRule => ({
  tool,
  pattern,
  action,
});
const policy = (fallback: PermissionAction, ...rules: PermissionRule[]): MemberPolicy => ({
  ...ALLOW_ALL,
  default: fallback,
  rules,
});
const request = (permission: string, ...patterns: string[]) => ({ permission, patterns });

test("without a rule that fits, the default decides", () => {
  for (const action of ["allow", "deny", "ask"] as const) {
    expect(decidePermission(policy(action, rule("edit", "*", "deny")), request("bash", "ls"))).toBe(action);
  }
});

test("the last rule that fits decides", () => {
  const rules = policy(
    "ask",
    rule("*", "*", "deny"),
    rule("bash", "git *", "allow"),
    rule("bash", "git push*", "ask"),
  );
  expect(decidePermission(rules, request("bash", "git status"))).toBe("allow");
  expect(decidePermission(rules, request("bash", "git push origin"))).toBe("ask");
  expect(decidePermission(rules, request("edit", "a.txt"))).toBe("deny");
});

test("of several patterns in one request the strictest verdict holds, in every order", () => {
  const rules = policy("allow", rule("bash", "rm *", "deny"), rule("bash", "curl *", "ask"));
  const verdicts: Array<[string[], PermissionAction]> = [
    [["ls", "rm x"], "deny"],
    [["rm x", "ls"], "deny"],
    [["ls", "curl x"], "ask"],
    [["curl x", "rm x", "ls"], "deny"],
    [["ls"], "allow"],
  ];
  for (const [patterns, verdict] of verdicts)
    expect(decidePermission(rules, request("bash", ...patterns))).toBe(verdict);
});

test("a request that names no pattern is judged as one for everything: a narrow allow does not cover it", () => {
  expect(decidePermission(policy("deny", rule("bash", "ls", "allow")), request("bash"))).toBe("deny");
  expect(decidePermission(policy("deny", rule("bash", "*", "allow")), request("bash"))).toBe("allow");
});

test("a glob fits the whole text and not a part of it", () => {
  const cases: Array<[string, string, boolean]> = [
    ["ls", "ls", true],
    ["ls", "ls -l", false],
    ["ls*", "ls -l", true],
    ["*ls", "xls", true],
    ["a?c", "abc", true],
    ["a?c", "ac", false],
    ["*a*b*", "xxaxxbxx", true],
    ["*a*b", "xxaxxbx", false],
    ["**", "", true],
    ["?", "", false],
    ["a.c", "abc", false],
    ["[a]", "a", false],
    ["*\n*", "a\nb", true],
  ];
  for (const [glob, text, fits] of cases)
    expect([glob, text, fitsGlob(glob, text)]).toEqual([glob, text, fits]);
});

test("a glob agrees with the regular expression that it stands for", () => {
  const alphabet = fc.string({ unit: fc.constantFrom("a", "b", "*", "?", "."), maxLength: 8 });
  fc.assert(
    fc.property(
      alphabet,
      fc.string({ unit: fc.constantFrom("a", "b", "."), maxLength: 10 }),
      (glob, text) => {
        const source = [...glob]
          .map((c) => (c === "*" ? ".*" : c === "?" ? "." : c === "." ? "\\." : c))
          .join("");
        return fitsGlob(glob, text) === new RegExp(`^${source}$`, "s").test(text);
      },
    ),
  );
});

test("a glob full of stars does not take the square of time that a naive matcher would", () => {
  // Bounded by steps and not by the clock: an exponential matcher would never come back.
  expect(fitsGlob(`${"*a".repeat(200)}b`, "a".repeat(5000))).toBe(false);
});

test("the CLI must ask for everything as soon as the policy could say something else than allow to any tool", () => {
  expect(askedTools(ALLOW_ALL)).toEqual([]);
  expect(
    askedTools(
      policy("allow", rule("edit", "*", "deny"), rule("bash", "*", "ask"), rule("bash", "x", "deny")),
    ),
  ).toEqual(["bash", "edit"]);
  expect(askedTools(policy("allow", rule("*", "*.env", "deny")))).toBe("all");
  expect(askedTools(policy("ask"))).toBe("all");
  expect(askedTools(policy("deny", rule("bash", "*", "allow")))).toBe("all");
});

test("a policy is accepted as it is, and refused beyond its bounds", () => {
  expect(MemberPolicy.safeParse(ALLOW_ALL).success).toBe(true);
  const bad: unknown[] = [
    { ...ALLOW_ALL, default: "always" },
    { ...ALLOW_ALL, askLimitMs: 0 },
    { ...ALLOW_ALL, askDefault: "ask" },
    { ...ALLOW_ALL, rules: [rule("bash", "", "allow")] },
    { ...ALLOW_ALL, rules: [rule("bash", "x".repeat(513), "allow")] },
    { ...ALLOW_ALL, rules: Array.from({ length: 129 }, () => rule("bash", "*", "allow")) },
  ];
  for (const value of bad) expect(MemberPolicy.safeParse(value).success).toBe(false);
});

test("a tool is named by the CLI's own word, as it writes it, or by a star; nothing else can be a name", () => {
  const takes = (tool: string) =>
    MemberPolicy.safeParse({ ...ALLOW_ALL, rules: [rule(tool, "*", "deny")] }).success;
  const good = [
    "*",
    "bash",
    "external_directory",
    "Bash",
    "AskUserQuestion",
    "mcp__git-hub__list.all",
    "a:b",
    "x".repeat(128),
  ];
  const bad = ["", "**", "*x", "1x", "-x", ".x", "a b", "a/b", "a\n", "bash*", "ä", '"', "x".repeat(129)];
  for (const tool of good) expect([tool, takes(tool)]).toEqual([tool, true]);
  for (const tool of bad) expect([tool, takes(tool)]).toEqual([tool, false]);
});

test("a tool's word is compared as it is: another case is another tool", () => {
  const rules = policy("allow", rule("Bash", "*", "deny"));
  expect(decidePermission(rules, request("Bash", "ls"))).toBe("deny");
  expect(decidePermission(rules, request("bash", "ls"))).toBe("allow");
  expect(askedTools(rules)).toEqual(["Bash"]);
});
