// The CLIs of the image, as data: their versions are those of clis/package.json, which a test compares. Installs
// nothing and knows nothing of how a CLI is driven.

type CliName = "opencode" | "kilo" | "claude" | "codex" | "pi";

export interface CliPin {
  cli: CliName;
  version: string;
  /** The one line that `--version` answers. */
  says: string;
  /** Name in clis/package.json, and folder below node_modules. */
  package: string;
  /** The file to run, below the package's folder. Its siblings may be needed by it. */
  entry: string;
  /**
   * `program` runs by itself, and its package's folder is all of it. `script` is JavaScript for the image's Node, and the
   * libraries of its package come along (`libraries.ts`).
   */
  kind: "program" | "script";
  /** What of its folders stays out of the image: a folder below the package's own, or an ending (`*.map`). */
  leftOut: readonly string[];
  /** Of several versions of a CLI the one that is taken unless another is asked for. */
  isDefault: boolean;
}

/** In the order in which they are laid into the image: what is most often exchanged comes last. */
export const CLI_PINS: readonly CliPin[] = [
  {
    cli: "opencode",
    version: "1.18.33",
    says: "1.18.33",
    package: "opencode-linux-x64",
    entry: "bin/opencode",
    kind: "program",
    leftOut: [],
    isDefault: true,
  },
  {
    cli: "kilo",
    version: "7.7.7",
    says: "7.7.7",
    package: "@kilocode/cli-linux-x64",
    entry: "bin/kilo",
    kind: "program",
    leftOut: [],
    isDefault: true,
  },
  {
    cli: "codex",
    version: "0.171.0",
    says: "codex-cli 0.171.0",
    package: "codex-linux-x64",
    entry: "vendor/x86_64-unknown-linux-musl/bin/codex",
    kind: "program",
    // Speech, 60 MB; nothing of `app-server` asks for it.
    leftOut: ["vendor/x86_64-unknown-linux-musl/codex-resources/voice"],
    isDefault: true,
  },
  {
    cli: "pi",
    version: "1.6.0",
    says: "1.6.0",
    package: "@earendil-works/pi-coding-agent",
    entry: "dist/bundle/cli.js",
    kind: "script",
    // For debuggers and type checkers: half of the libraries' bytes.
    leftOut: ["*.map", "*.d.ts", "*.d.mts", "*.d.cts"],
    isDefault: true,
  },
  // From 2.1.269 on a process that tried a request again may go on: it needs no retirement.
  {
    cli: "claude",
    version: "2.1.332",
    says: "2.1.332 (Claude Code)",
    package: "claude-code-2.1.332",
    entry: "claude",
    kind: "program",
    leftOut: [],
    isDefault: true,
  },
  {
    cli: "claude",
    version: "2.1.220",
    says: "2.1.220 (Claude Code)",
    package: "claude-code-2.1.220",
    entry: "claude",
    kind: "program",
    leftOut: [],
    isDefault: false,
  },
];

/** One pin a CLI: the default ones, or Claude Code of another pinned version. Throws with the versions that there are. */
export function choosePins(claude?: string): CliPin[] {
  const others = CLI_PINS.filter(({ cli }) => cli !== "claude");
  const known = CLI_PINS.filter(({ cli }) => cli === "claude");
  const chosen = known.find(({ version, isDefault }) =>
    claude === undefined ? isDefault : version === claude,
  );
  if (chosen === undefined) {
    const versions = known.map(({ version }) => version).join(" or ");
    throw new Error(`Claude Code ${claude} is not pinned: name ${versions}`);
  }
  return [...others, chosen];
}

/** True for what a pin leaves out, by its path below its package's own folder, or below a library's. */
export function isLeftOut({ leftOut }: CliPin, path: string, isOwn: boolean): boolean {
  return leftOut.some((rule) =>
    rule.startsWith("*")
      ? path.endsWith(rule.slice(1))
      : isOwn && (path === rule || path.startsWith(`${rule}/`)),
  );
}

/** What runs a CLI whose folders lie below `modules`, a node_modules folder. */
export function commandOf(pin: CliPin, place: { node: string; modules: string }): string[] {
  const entry = `${place.modules}/${pin.package}/${pin.entry}`;
  switch (pin.kind) {
    case "program":
      return [entry];
    case "script":
      return [place.node, entry];
    default: {
      const never: never = pin.kind;
      throw new TypeError(`a pin of kind ${String(never)} has no command`);
    }
  }
}
