// The CLIs of the image, as data: their versions are those of clis/package.json, which a test compares. Installs
// nothing and knows nothing of how a CLI is driven.

export interface CliPin {
  cli: "opencode" | "kilo";
  /** What `--version` of the binary answers. */
  version: string;
  /** Name in clis/package.json, and folder below node_modules; all of it goes to /opt/holdfast/clis/<cli>. */
  package: string;
  /** The file to run, below the package's folder. Its siblings may be needed by it. */
  binary: string;
}

export const CLI_PINS: readonly CliPin[] = [
  { cli: "opencode", version: "1.18.33", package: "opencode-linux-x64", binary: "bin/opencode" },
  { cli: "kilo", version: "7.7.7", package: "@kilocode/cli-linux-x64", binary: "bin/kilo" },
];
