import { expect, test } from "vitest";
import { commandPatterns } from "../../../../bridge/drivers/stdio/shell-commands.ts";
import { ALLOW_ALL, decidePermission } from "../../../../protocol/permission-policy.ts";

const behind = (line: string) => commandPatterns(line).slice(1);

test.each([
  "git push",
  " touch a ",
  "echo 'a; rm x' \"b && rm x\" c\\;d",
  "make >log 2>&1",
  "make &>log",
  "echo $'it\\'s; rm x'",
  "",
])("one command is one pattern: %j", (line) => {
  expect(commandPatterns(line)).toEqual([line]);
});

test.each<[line: string, commands: string[]]>([
  ["cd . && rm x", ["cd .", "rm x"]],
  ["a; b | c || d & e\nf |& g", ["a", "b", "c", "d", "e", "f", "g"]],
  ["make 2>&1 | tee log", ["make 2>&1", "tee log"]],
  ["(rm x)", ["rm x"]],
  ["a && (b; c) && d", ["a", "b", "c", "d"]],
  ["echo $(rm x)", ["rm x"]],
  ['echo "it is $(rm "$(b)") now"', ["b", 'rm "$(b)"']],
  ["echo `rm x`", ["rm x"]],
  ['echo "`rm x`"', ["rm x"]],
  ["diff <(rm x) y", ["rm x"]],
  ["if true; then rm x; fi", ["true", "rm x"]],
  ["for f in *; do rm $f; done", ["rm $f"]],
  ["case $a in b) rm x ;; esac", ["rm x"]],
  ["{ rm x; }", ["rm x"]],
  ["! rm x", ["rm x"]],
  ["A=1 B='x y' rm x", ["rm x"]],
  [">log rm x", ["rm x"]],
  ["echo a # b; c\nrm x", ["echo a", "rm x"]],
  ["echo a#b; rm x", ["echo a#b", "rm x"]],
  ["cat <<EOF\nit's; $(rm x)\nEOF\nrm y", ["rm x", "cat <<EOF", "rm y"]],
  ["cat <<'EOF' && rm y\n$(rm x)\nEOF\nrm z", ["cat <<'EOF'", "rm y", "rm z"]],
  ["cat <<-E\n\trm x\n\tE\nrm y", ["cat <<-E", "rm y"]],
  ["cat <<<x; rm y", ["cat <<<x", "rm y"]],
  ["a\n'unclosed; rm x", ["a", "'unclosed; rm x"]],
])("%j holds its commands", (line, commands) => {
  for (const command of commands) expect(behind(line)).toContain(command);
  expect(behind(line).filter((each) => each.startsWith("rm"))).toEqual(
    commands.filter((each) => each.startsWith("rm")),
  );
});

test("a rule is heard wherever its command stands, and an allowed beginning allows nothing behind it", () => {
  const denied = { ...ALLOW_ALL, rules: [{ tool: "sh", pattern: "git push*", action: "deny" as const }] };
  const allowed = {
    ...ALLOW_ALL,
    default: "deny" as const,
    rules: [{ tool: "sh", pattern: "git *", action: "allow" as const }],
  };
  const decide = (policy: typeof allowed | typeof denied, line: string) =>
    decidePermission(policy, { permission: "sh", patterns: commandPatterns(line) });
  expect(decide(denied, "cd repo && git push --force")).toBe("deny");
  expect(decide(denied, "git status && git log")).toBe("allow");
  expect(decide(allowed, "git status; rm -rf .")).toBe("deny");
  expect(decide(allowed, "git status $(rm -rf .)")).toBe("deny");
  expect(decide(allowed, "git add . && git commit -m 'a; b'")).toBe("allow");
});

test("what is nested too deeply is cut at every mark: nothing hides in it", () => {
  const deep = `${"$(".repeat(40)}'; rm x; '${")".repeat(40)}`;
  expect(behind(deep)).toContain("rm x");
  const documents = `${"$(cat <<A\n".repeat(5)}$(rm x)\nA\n`;
  expect(behind(documents)).toContain("rm x");
});

test("law 13: it is linear in the line, whatever that holds", () => {
  const hostile = ["(", "$(", "`", '"', "'", "\\", "a=1 ", "<<A\n", "$(<<A\n", ">a ", "if ", "#", "\n", "${"];
  for (const piece of hostile) {
    const startMs = performance.now();
    const patterns = commandPatterns(piece.repeat(Math.ceil(300_000 / piece.length)));
    expect(performance.now() - startMs, JSON.stringify(piece)).toBeLessThan(3000);
    expect(patterns.reduce((chars, { length }) => chars + length, 0)).toBeLessThan(20 * 300_000);
  }
});
