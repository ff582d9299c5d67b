/** The command line: finds the command, reads its words, runs it, and says errors in one line with the next step. */
import { readFileSync } from "node:fs";
import { asHoldfastError, HoldfastError } from "../../protocol/errors.ts";
import { chat } from "./chat.ts";
import { type Command, readWords } from "./command.ts";
import { demo } from "./demo.ts";
import { doctor } from "./doctor.ts";
import { readEnvironment } from "./environment.ts";
import { hostShow } from "./host.ts";
import { hostDrain, hostList, hostRemove } from "./hosts.ts";
import { imageBuild } from "./image.ts";
import { memberInspect, memberList } from "./member.ts";
import { memberFork } from "./member-fork.ts";
import { createOutput, type Output } from "./output.ts";
import { preflight } from "./preflight.ts";
import { sandboxList, sandboxRemove, sandboxStop } from "./sandbox.ts";
import { storeBackup, storeCheck } from "./store.ts";
import { tourTurn } from "./tour-turn.ts";
import { turnShow } from "./turn.ts";
import { turnInspect } from "./turn-inspect.ts";
import { usage } from "./usage.ts";

const COMMANDS: readonly Command[] = [
  demo,
  chat,
  doctor,
  preflight,
  imageBuild,
  sandboxList,
  sandboxStop,
  sandboxRemove,
  memberList,
  memberInspect,
  memberFork,
  hostList,
  hostDrain,
  hostRemove,
  hostShow,
  turnShow,
  turnInspect,
  usage,
  storeBackup,
  storeCheck,
];

/** Started by the tour alone. */
const HIDDEN: readonly Command[] = [tourTurn];

const INTRODUCTION = `holdfast runs native coding-agent CLIs in retained sandboxes and says of every turn, with evidence,
whether it settled and whether the native conversation survived.
`;

const ENVIRONMENT = `environment:
  HOLDFAST_STORE   folder of the store, when --store does not name it (default: ~/.local/share/holdfast)
  HOLDFAST_STORE_URL  the PostgreSQL database that the store is in, when --store-url does not name it
  HOLDFAST_HOST_ID  name of this host in that database, when --host-id does not give it (default: host)
  HOLDFAST_LABELS  name=value,name=value: further labels of the containers that are made
  HOLDFAST_DIST    folder that the image build wrote (default: dist beside the program)
  DOCKER_HOST      unix:///path of the engine's socket
  NO_COLOR         no colour`;

async function main(argv: readonly string[], variables: NodeJS.ProcessEnv): Promise<number> {
  // Npm's scripts of these names run us: what we tell the user to type must work there.
  const isNpm = /^(start|holdfast)$/.test(variables.npm_lifecycle_event ?? "");
  const output = createOutput({
    isJson: argv.includes("--json"),
    noColor: (variables.NO_COLOR ?? "") !== "" || variables.TERM === "dumb",
    callName: isNpm ? "npm run holdfast --" : "holdfast",
  });
  try {
    const [first = "", second = ""] = argv;
    if (first === "" || /^(-h|--help|help)$/.test(first)) {
      introduce(COMMANDS, output);
      return first === "" ? 2 : 0;
    }
    if (first === "--version") {
      output.line(version());
      return 0;
    }
    const group = COMMANDS.filter(({ name }) => name.startsWith(`${first} `));
    if (group.length > 0 && /^(-h|--help)$/.test(second)) {
      introduce(group, output);
      return 0;
    }
    const { command, rest } = findCommand(argv);
    const { words, values } = readWords(command, rest);
    if (values.help === true) {
      output.line(`${command.summary}\n\nusage: ${output.command(`${command.name} ${command.usage}`)}`);
      return 0;
    }
    return await command.run({ words, values, environment: readEnvironment(values, variables), output });
  } catch (error) {
    const fault = asHoldfastError(error);
    output.error(fault);
    return fault.code === "USAGE" ? 2 : 1;
  }
}

function introduce(commands: readonly Command[], output: Output): void {
  output.line(INTRODUCTION);
  output.line(`usage: ${output.command("COMMAND [options]")}      ${output.command("COMMAND --help")}\n`);
  for (const { name, summary } of commands) output.line(`  ${name.padEnd(14)} ${summary}`);
  output.line(
    "\nevery command: --store DIR, --store-url URL, --host-id ID, --json, --help; --take-over takes the store from a controller that hangs\n",
  );
  output.line(ENVIRONMENT);
}

function version(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

function findCommand(argv: readonly string[]): { command: Command; rest: string[] } {
  // `host ls` before `host`.
  const byLength = [...COMMANDS, ...HIDDEN].toSorted((one, other) => other.name.length - one.name.length);
  for (const command of byLength) {
    const words = command.name.split(" ");
    if (words.every((word, at) => argv[at] === word)) return { command, rest: argv.slice(words.length) };
  }
  const near = COMMANDS.filter(({ name }) => name.split(" ")[0] === argv[0]).map(({ name }) => name);
  const hint = near.length > 0 ? `did you mean ${near.join(", ")}?` : "see holdfast --help";
  throw new HoldfastError("USAGE", `there is no command "${argv.slice(0, 2).join(" ")}": ${hint}`);
}

/** Whoever reads us may go early (`| head`): what we do is then done without a reader, cleaning up included. */
function ignoreBrokenPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
}
process.stdout.on("error", ignoreBrokenPipe);
process.stderr.on("error", ignoreBrokenPipe);

process.exitCode = await main(process.argv.slice(2), process.env);
