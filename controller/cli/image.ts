/** `holdfast image build`: runs the image's own build program, whose progress and result pass through. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../protocol/errors.ts";
import type { Command } from "./command.ts";
import type { Environment } from "./environment.ts";
import { commandSetup } from "./open.ts";

export const imageBuild: Command = {
  name: "image build",
  summary: "Builds the sandbox image, or finds that it is up to date.",
  usage: `[--base IMAGE] [--claude VERSION] [--tag NAME] [--bundle-only] [--json]

--base builds upon an image of yours, --claude takes another pinned version of Claude Code than the default one,
--bundle-only makes what process sandboxes need, without an engine.`,
  options: {
    base: { type: "string" },
    claude: { type: "string" },
    tag: { type: "string" },
    "bundle-only": { type: "boolean" },
  },
  words: { min: 0, max: 0 },
  async run({ values, environment }) {
    const args: string[] = [];
    for (const name of ["base", "claude", "tag"]) {
      const value = values[name];
      if (typeof value === "string") args.push(`--${name}`, value);
    }
    for (const name of ["bundle-only", "json"]) if (values[name] === true) args.push(`--${name}`);
    if (values["bundle-only"] !== true) {
      const setup = commandSetup(environment);
      const hasEngine = await setup.engine.ping().finally(() => setup.close());
      if (!hasEngine) throw new HoldfastError("ENGINE_MISSING");
    }
    const code = await runBuild(environment, args);
    if (code !== 0)
      throw new HoldfastError("ENGINE_ERROR", `the build failed (exit code ${code}), see above`);
    return 0;
  },
};

/** Runs the build program to its end; returns its exit code. */
export function runBuild(environment: Environment, args: readonly string[]): Promise<number> {
  const program = join(environment.root, "sandbox-image", "build.ts");
  if (!existsSync(program))
    throw new HoldfastError("IMAGE_MISSING", "the image's build is not part of this package");
  return new Promise((resolve, reject) => {
    const child = spawn(environment.node, [program, ...args], {
      stdio: "inherit",
      env: environment.variables,
    });
    child.once("error", (cause) =>
      reject(new HoldfastError("IMAGE_MISSING", "the build can't be started", { cause })),
    );
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
