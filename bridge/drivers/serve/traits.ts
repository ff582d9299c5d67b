/**
 * What differs between the CLIs that are driven over their own HTTP server (`opencode serve` and its fork), as data.
 * From the facts sheet `opencode-kilo`, sections 1, 3.6 and 13.
 */
import type { CliName } from "../../../protocol/locator.ts";

export interface ServeTraits {
  readonly cli: CliName;
  /** Arguments behind the configured command. */
  readonly args: readonly string[];
  /** The line on stdout after which the server answers; its first group is the port. */
  readonly readyLine: RegExp;
  /** User name for HTTP Basic. */
  readonly userName: string;
  readonly passwordVariable: string;
  /** Takes the configuration as JSON. */
  readonly configVariable: string;
  /** Each turn has an opening and a closing event of its own. */
  readonly hasTurnBrackets: boolean;
  /** History is ordered by message id: an id that lies in the future, or falls, would hide earlier turns. */
  readonly ordersById: boolean;
  /** A provider out of reach parks the turn on a request that waits for ever. */
  readonly asksForNetwork: boolean;
  /** Tools that work on when their turn has ended; denied unless the member allows background work. */
  readonly backgroundTools: readonly string[];
  /** Lets Task children work on when their turn has ended: `true` or `false`, for Kilo's own default is yes. */
  readonly backgroundVariable: string;
  /**
   * Lock file of the CLI's own packages, below its configuration folder. Where it and a `node_modules` beside it are, the
   * CLI installs none: OpenCode fetches 63 MB from the npm registry in its first run otherwise, in every slot, and
   * ignores SIGTERM meanwhile. Null for a CLI that fetches none.
   */
  readonly packagesLock: { path: string; text: string } | null;
  /** The folder in which its database lies, below the slot. */
  readonly stateFolder: string;
  /** Switches off updates, telemetry and outside fetches. */
  readonly quietVariables: Readonly<Record<string, string>>;
}
