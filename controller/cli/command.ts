/** What a command of the command line is, and how its words are read. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Environment } from "./environment.ts";
import type { Output } from "./output.ts";

type Options = NonNullable<ParseArgsConfig["options"]>;
export type Values = Readonly<Record<string, string | boolean | undefined>>;

export interface Command {
  /** As typed, e.g. `sandbox ls`. */
  readonly name: string;
  readonly summary: string;
  /** Everything behind the name, for `--help`. */
  readonly usage: string;
  readonly options: Options;
  /** Words that are no options. */
  readonly words: { min: number; max: number };
  /** Returns the exit code. */
  run(call: {
    words: readonly string[];
    values: Values;
    environment: Environment;
    output: Output;
  }): Promise<number>;
}

/** Understood by every command. */
const COMMON_OPTIONS = {
  help: { type: "boolean", short: "h" },
  json: { type: "boolean" },
  store: { type: "string" },
  "store-url": { type: "string" },
  "host-id": { type: "string" },
  "take-over": { type: "boolean" },
} as const satisfies Options;

/** Options for the way to a model. */
export const MODEL_OPTIONS = {
  "base-url": { type: "string" },
  model: { type: "string" },
  "key-file": { type: "string" },
  "key-variable": { type: "string" },
  "ca-file": { type: "string" },
  proxy: { type: "string" },
  routes: { type: "string" },
  route: { type: "string" },
} as const satisfies Options;

export const MODEL_USAGE =
  "[--base-url URL --model NAME [--key-file FILE | --key-variable NAME] [--ca-file FILE] [--proxy URL]]\n       [--routes FILE --model NAME [--route NAME]]";

/** Throws USAGE that names the command. */
export function readWords(command: Command, argv: readonly string[]): { words: string[]; values: Values } {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: { ...COMMON_OPTIONS, ...command.options },
      allowPositionals: true,
      strict: true,
    });
    if (
      values.help !== true &&
      (positionals.length < command.words.min || positionals.length > command.words.max)
    ) {
      const usage = `${command.name} ${command.usage.split("\n")[0]}`;
      throw new TypeError(`it takes ${describeWords(command.words)}; usage: ${usage}`);
    }
    return { words: positionals, values: values as Values };
  } catch (cause) {
    // Node's own text goes on about words that begin with a dash.
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(
      /\. To specify a positional.*/s,
      "",
    );
    throw new HoldfastError("USAGE", `${command.name}: ${why}`);
  }
}

function describeWords({ min, max }: { min: number; max: number }): string {
  if (max === 0) return "no further words";
  if (min !== max) return `${min} to ${max} words`;
  return min === 1 ? "one word" : `${min} words`;
}

/** An option that was given as text, or undefined. */
export function text(values: Values, name: string): string | undefined {
  const value = values[name];
  return typeof value === "string" ? value : undefined;
}
