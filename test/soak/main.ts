// `npm run soak`: turns of several members and CLIs on real containers, with random faults from a printed seed. Stops at
// the first broken invariant (exit code 1), after the asked number of turns, or when its time is over.
import { randomInt } from "node:crypto";
import { soakOptions } from "./options.ts";
import { runSoak } from "./run.ts";

const say = (line: string): void => void process.stderr.write(`${line}\n`);

try {
  const options = soakOptions(process.argv.slice(2), () => randomInt(1, 2 ** 31));
  const again = `--seed ${options.seed} --turns ${options.turns} --members ${options.members} --clis ${options.clis.join(",")}`;
  say(`soak ${again}`);
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => {
      say(`${name}: the soak ends after this step`);
      stop.abort();
    });
  const { turns, table, violations } = await runSoak(options, say, stop.signal);
  process.stdout.write(`${table}\n`);
  for (const violation of violations) say(violation);
  say(
    violations.length === 0
      ? `all invariants held over ${turns} turns`
      : `broken after ${turns} turns; again with: npm run soak -- ${again}`,
  );
  process.exitCode = violations.length === 0 ? 0 : 1;
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
