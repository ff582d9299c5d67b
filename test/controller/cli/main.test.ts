// The command line as a program: help, exit codes, errors. No engine, no sandbox.
import { expect, test } from "vitest";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const COMMANDS = [
  "demo",
  "chat",
  "doctor",
  "image build",
  "sandbox ls",
  "sandbox stop",
  "sandbox rm",
  "member ls",
  "member inspect",
  "turn show",
  "turn inspect",
];
const ESCAPE = "\u001b";
/** One line with a code and a next step. */
const ERROR_LINE = /^holdfast: .+ \[([A-Z_]+)\] \S.+\n$/;

function run(args: string[], env: Record<string, string> = {}) {
  return cli(args, { store: temporaryDirectory(), env: { DOCKER_HOST: DEAD_ENGINE, ...env } });
}

test("help lists every command and shows what the environment does; without words it is the same with exit code 2", async () => {
  const help = await run(["--help"]);
  expect(help).toMatchObject({ code: 0, stderr: "" });
  for (const name of COMMANDS) expect(help.stdout).toContain(`\n  ${name} `);
  for (const name of ["HOLDFAST_STORE", "HOLDFAST_LABELS", "DOCKER_HOST", "NO_COLOR"])
    expect(help.stdout).toContain(name);
  expect(help.stdout).not.toContain("tour-turn");
  expect(await run([])).toEqual({ ...help, code: 2 });
  expect(await run(["help"])).toEqual(help);
});

test.for(COMMANDS)("%s has a help of its own, and asking for it does nothing", async (name) => {
  const end = await run([...name.split(" "), "--help"]);
  expect(end).toMatchObject({ code: 0, stderr: "" });
  expect(end.stdout).toContain(`usage: holdfast ${name}`);
});

test("a group's help lists its commands alone", async () => {
  const { code, stdout } = await run(["sandbox", "--help"]);
  expect(code).toBe(0);
  expect(stdout).toContain("sandbox stop");
  expect(stdout).not.toContain("turn show");
});

test("the version is the package's", async () => {
  const { code, stdout } = await run(["--version"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test("run by npm, it names its commands as they are typed there", async () => {
  const env = { npm_lifecycle_event: "holdfast" };
  expect((await run(["chat", "--help"], env)).stdout).toContain("usage: npm run holdfast -- chat");
  expect((await run(["sandbox", "rm", "sb-1"], env)).stderr).toContain("`npm run holdfast -- sandbox ls`");
});

test.for([
  ["an unknown command", ["frobnicate"]],
  ["half a command", ["sandbox"]],
  ["an option in the place of a command", ["--frob"]],
  ["an unknown option", ["doctor", "--frob"]],
  ["a word too many", ["sandbox", "ls", "x"]],
  ["a word too few", ["turn", "show"]],
  ["an option without its value", ["doctor", "--store"]],
  ["an empty store", ["doctor", "--store="]],
  ["another kind of sandbox", ["demo", "--sandbox", "vm"]],
  ["a model without an address", ["demo", "--model", "m"]],
  ["a chat without a model", ["chat"]],
  ["a kept chat without an address", ["chat", "--member", "m-1"]],
  ["a sandbox for a member that has one", ["chat", "--member", "m-1", "--sandbox", "process"]],
] as Array<[string, string[]]>)("%s is a mistake of usage: exit code 2, one line", async ([, args]) => {
  const { code, stdout, stderr } = await run(args);
  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr.match(ERROR_LINE)?.[1] ?? stderr).toBe("USAGE");
});

test("broken labels are a mistake of usage too", async () => {
  const { code, stderr } = await run(["doctor"], { HOLDFAST_LABELS: "nonsense" });
  expect(code).toBe(2);
  expect(stderr).toContain("HOLDFAST_LABELS");
});

test.for([
  ["TURN_UNKNOWN", ["turn", "show", "turn-1"]],
  ["SANDBOX_UNKNOWN", ["sandbox", "stop", "sb-1"]],
  ["SANDBOX_UNKNOWN", ["sandbox", "rm", "sb-1"]],
  ["MEMBER_UNKNOWN", ["chat", "--member", "m-1", "--base-url", "http://127.0.0.1:1/v1"]],
  ["ENGINE_MISSING", ["demo", "--sandbox", "docker"]],
  ["ENGINE_MISSING", ["image", "build"]],
  ["REQUEST_INVALID", ["demo", "--base-url", "nonsense", "--model", "m"]],
] as Array<[string, string[]]>)(
  "%s ends %s with exit code 1, one line, and nothing on stdout",
  async ([code, args]) => {
    const [end, json] = await Promise.all([run(args), run([...args, "--json"])]);
    expect(end.code).toBe(1);
    expect(end.stdout).toBe("");
    expect(end.stderr.match(ERROR_LINE)?.[1] ?? end.stderr).toBe(code);
    expect(json).toMatchObject({ code: 1, stdout: "" });
    const { error } = JSON.parse(json.stderr) as { error: { code: string; message: string; next: string } };
    expect(error).toMatchObject({ code, next: expect.stringMatching(/\S/) as string });
  },
);

test("a word with control characters is shown without them", async () => {
  const { stderr } = await run(["turn", "show", `x${ESCAPE}[2J\nforged: line`]);
  expect(stderr).toMatch(ERROR_LINE);
  expect(stderr).not.toContain(ESCAPE);
  const json = await run(["turn", "show", `x${ESCAPE}[2J\u009b`, "--json"]);
  expect([...json.stderr].filter((character) => "\u001b\u009b".includes(character))).toEqual([]);
  expect(JSON.parse(json.stderr)).toMatchObject({ error: { message: `no turn x[2J` } });
});

test("what is piped has no escapes, with NO_COLOR or without", async () => {
  const calls = [["--help"], ["doctor"], ["sandbox", "ls"], ["nonsense"]];
  const ends = await Promise.all([...calls.map((args) => run(args)), run(["doctor"], { NO_COLOR: "1" })]);
  for (const { stdout, stderr } of ends) expect(stdout + stderr).not.toContain(ESCAPE);
});
