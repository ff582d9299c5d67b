/** The command line: finds the command, reads its words, runs it, and says errors in one line with the next step. */
import { asHoldfastError, HoldfastError } from "../../protocol/errors.ts";
import { chat } from "./chat.ts";
import { type Command, readWords } from "./command.ts";
import { demo } from "./demo.ts";
import { doctor } from "./doctor.ts";
import { readEnvironment } from "./environment.ts";
import { imageBuild } from "./image.ts";
import { createOutput } from "./output.ts";
import { sandboxList, sandboxRemove, sandboxStop } from "./sandbox.ts";
import { tourTurn } from "./tour-turn.ts";
import { turnShow } from "./turn.ts";

const COMMANDS: readonly Command[] = [
  demo,
  chat,
  doctor,
  imageBuild,
  sandboxList,
  sandboxStop,
  sandboxRemove,
  turnShow,
];

/** Started by the tour alone. */
const HIDDEN: readonly Command[] = [tourTurn];

const INTRODUCTION = `holdfast runs native coding-agent CLIs in retained sandboxes and says of every turn, with evidence,
whether it settled and whether the native conversation survived.

usage: holdfast COMMAND [options]      holdfast COMMAND --help
`;

async function main(argv: readonly string[]): Promise<number> {
  const isJson = argv.includes("--json");
  const output = createOutput({ isJson, noColor: process.env.NO_COLOR !== undefined });
  try {
    if (argv.length === 0 || (argv[0]?.startsWith("-") && /^(-h|--help)$/.test(argv[0]))) {
      output.line(INTRODUCTION);
      for (const { name, summary } of COMMANDS) output.line(`  ${name.padEnd(14)} ${summary}`);
      output.line("\nevery command: --store DIR (or HOLDFAST_STORE), --json, --help");
      return argv.length === 0 ? 2 : 0;
    }
    const { command, rest } = findCommand(argv);
    const { words, values } = readWords(command, rest);
    if (values.help === true) {
      output.line(`usage: holdfast ${command.name} ${command.usage}\n\n${command.summary}`);
      return 0;
    }
    return await command.run({ words, values, environment: readEnvironment(values, process.env), output });
  } catch (error) {
    const fault = asHoldfastError(error);
    output.error(fault);
    return fault.code === "USAGE" ? 2 : 1;
  }
}

function findCommand(argv: readonly string[]): { command: Command; rest: string[] } {
  for (const command of [...COMMANDS, ...HIDDEN]) {
    const words = command.name.split(" ");
    if (words.every((word, at) => argv[at] === word)) return { command, rest: argv.slice(words.length) };
  }
  const near = COMMANDS.filter(({ name }) => name.split(" ")[0] === argv[0]).map(({ name }) => name);
  const hint = near.length > 0 ? `did you mean ${near.join(", ")}?` : "see holdfast --help";
  throw new HoldfastError("USAGE", `there is no command "${argv.slice(0, 2).join(" ")}": ${hint}`);
}

process.exitCode = await main(process.argv.slice(2));
