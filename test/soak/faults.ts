/** The faults of a soak as data: how likely, how done, and which outcomes are right for the turns that they meet. */
import type { Outcome } from "../../protocol/settlement.ts";
import { isBridge, type Place, type PlaceProcess } from "../fault/place.ts";
import type { TestHost } from "../support/host.ts";
import type { PrivateEngine } from "../support/private-engine.ts";
import { fillDisk } from "../support/small-disk.ts";

/** How long what is stopped stays so, at most, ms: below every limit of ours. */
const PAUSE_MS = 2000;
const FULL_MS = 1500;

interface Target {
  t: TestHost;
  sandbox: string;
  place: Place;
  /** The CLI of the member that is meant. */
  cli(): PlaceProcess | null;
  /** Null: the engine is everybody's, and is left alone. */
  engine: PrivateEngine | null;
  wait(ms: number): Promise<void>;
}

export interface Fault {
  name: string;
  weight: number;
  /** For turns of the member that is meant, and of others in its sandbox; null: as without a fault. */
  meant: readonly Outcome[];
  others: readonly Outcome[];
  needs?: "engine" | "small store";
  /** The sandbox is of no use afterwards. */
  isEnd?: boolean;
  /** Resolves when the world is whole again, as far as it will be. */
  strike(target: Target): Promise<void>;
}

const WHOLE: readonly Outcome[] = ["completed"];
const DEATH: readonly Outcome[] = ["completed", "not_sent", "unknown", "failed", "refused", "aborted"];
/** Cut answers are asked again by OpenCode, and by Kilo as it comes (facts, section 4). */
const CUT: readonly Outcome[] = ["completed", "failed"];

export const FAULTS: readonly Fault[] = [
  { name: "none", weight: 30, meant: WHOLE, others: WHOLE, strike: async () => undefined },
  {
    name: "CLI killed",
    weight: 10,
    meant: ["completed", "failed", "not_sent", "refused", "unknown"],
    others: WHOLE,
    async strike({ cli }) {
      kill(cli(), "SIGKILL");
    },
  },
  {
    name: "CLI frozen",
    weight: 4,
    meant: ["completed", "not_sent"],
    others: WHOLE,
    async strike({ cli, wait }) {
      const found = cli();
      kill(found, "SIGSTOP");
      await wait(PAUSE_MS);
      kill(found, "SIGCONT");
    },
  },
  {
    name: "bridge killed",
    weight: 8,
    meant: DEATH,
    others: DEATH,
    async strike({ place }) {
      kill(place.find(isBridge), "SIGKILL");
    },
  },
  {
    name: "bridge frozen",
    weight: 4,
    meant: WHOLE,
    others: WHOLE,
    async strike({ place, wait }) {
      const found = place.find(isBridge);
      kill(found, "SIGSTOP");
      await wait(PAUSE_MS);
      kill(found, "SIGCONT");
    },
  },
  {
    name: "container killed",
    weight: 6,
    meant: DEATH,
    others: DEATH,
    async strike({ place }) {
      if (await place.isRunning()) await place.kill();
    },
  },
  {
    name: "container paused",
    weight: 5,
    meant: ["completed", "not_sent"],
    others: ["completed", "not_sent"],
    async strike({ place, wait }) {
      if (!(await place.isRunning())) return;
      await place.pause();
      await wait(PAUSE_MS);
      await place.unpause();
    },
  },
  {
    name: "sandbox stopped",
    weight: 4,
    meant: DEATH,
    others: DEATH,
    strike: ({ t, sandbox }) => t.host.stopSandbox(sandbox, { abort: true }),
  },
  {
    name: "controller restarted",
    weight: 8,
    meant: [...CUT, "not_sent"],
    others: [...CUT, "not_sent"],
    async strike({ t }) {
      await t.reopen();
    },
  },
  {
    name: "controller away",
    weight: 4,
    meant: [...CUT, "not_sent"],
    others: [...CUT, "not_sent"],
    async strike({ t, wait }) {
      await t.reopen(() => wait(PAUSE_MS));
    },
  },
  {
    name: "container removed",
    weight: 2,
    meant: DEATH,
    others: DEATH,
    isEnd: true,
    strike: ({ place }) => place.remove(),
  },
  {
    name: "store's disk full",
    weight: 4,
    needs: "small store",
    meant: WHOLE,
    others: WHOLE,
    async strike({ t, wait }) {
      const free = fillDisk(t.directory);
      await wait(FULL_MS);
      free();
    },
  },
  {
    name: "sandbox's disk full",
    weight: 3,
    needs: "engine",
    meant: DEATH,
    others: DEATH,
    async strike({ engine, wait }) {
      const free = engine?.fill();
      await wait(FULL_MS);
      free?.();
    },
  },
  {
    name: "engine restarted",
    weight: 3,
    needs: "engine",
    meant: WHOLE,
    others: WHOLE,
    async strike({ engine }) {
      await engine?.kill();
      await engine?.start({ liveRestore: true });
    },
  },
  {
    name: "engine restarted bare",
    weight: 2,
    needs: "engine",
    meant: DEATH,
    others: DEATH,
    async strike({ engine }) {
      await engine?.kill();
      await engine?.start({ liveRestore: false });
    },
  },
];

function kill(found: PlaceProcess | null, signal: NodeJS.Signals): void {
  if (found === null) return;
  try {
    process.kill(found.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
