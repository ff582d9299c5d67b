/** What a soak is asked to do, from its command line. Throws a TypeError that names what it does not understand. */
import { parseArgs } from "node:util";

export interface SoakOptions {
  turns: number;
  /** Members at a time, spread over sandboxes of two. */
  members: number;
  clis: string[];
  seed: number;
  /** It stops by itself after the step in which this is over. */
  limitMs: number;
  /** Faults to choose from, by name; null: all that can be had. */
  faults: string[] | null;
  /** An engine of its own, to be killed and filled up. */
  ownEngine: boolean;
}

const USAGE =
  "soak [--turns 1000] [--seed N] [--members 4] [--clis opencode,kilo] [--limit-s 3600] [--faults NAME,…] [--shared-engine]";

export function soakOptions(args: readonly string[], randomSeed: () => number): SoakOptions {
  let values: Record<string, string | boolean | undefined>;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        turns: { type: "string", default: "1000" },
        members: { type: "string", default: "4" },
        clis: { type: "string", default: "opencode,kilo" },
        seed: { type: "string" },
        "limit-s": { type: "string", default: "3600" },
        faults: { type: "string" },
        "shared-engine": { type: "boolean", default: false },
      },
    }));
  } catch (cause) {
    throw new TypeError(`${(cause as Error).message}\n${USAGE}`);
  }
  const count = (name: string) => {
    const number = Number(values[name]);
    if (!Number.isSafeInteger(number) || number < 1)
      throw new TypeError(`--${name} wants a number above 0\n${USAGE}`);
    return number;
  };
  return {
    turns: count("turns"),
    members: count("members"),
    clis: String(values.clis).split(","),
    seed: values.seed === undefined ? randomSeed() : count("seed"),
    limitMs: count("limit-s") * 1000,
    faults: values.faults === undefined ? null : String(values.faults).split(","),
    ownEngine: values["shared-engine"] !== true,
  };
}
