/**
 * What can be seen of a sandbox without making it ready for a turn: where it is, and which CLI processes are resident in
 * it. Nothing is started or trusted for it; a resident process may be ended, which is no harm to its conversation.
 */
import { asHoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Result } from "../protocol/methods.ts";
import type { SandboxLink } from "./sandbox-link.ts";
import { askBridge, type BridgeAnswer, probeSandbox, type SandboxProbe } from "./sandbox-probe.ts";
import type { SandboxDriver, SandboxSpec, SandboxState } from "./sandboxes/sandbox.ts";
import type { SandboxRow } from "./store/records.ts";
import type { SeenResident } from "./store/residents.ts";
import type { Store } from "./store/store.ts";

/** How long a bridge that runs may take to dial, when somebody only wants to look. */
const LOOK_MS = LIMITS.reconnectLongestMs + 2000;

export interface Sight {
  place: SandboxState | "unknown";
  /** What its bridge says is resident; null when it could not be asked, and then `why` says so. */
  status: Result<"bridge.status"> | null;
  why: string;
}

export interface SandboxSight {
  /** What is there now, as far as it can be seen: nothing is started, stopped or trusted for it. Never throws. */
  look(): Promise<Sight>;
  /** The reverse probe: what its bridge says about itself now, beside what is measured. Nothing is started. Never throws. */
  probe(): Promise<SandboxProbe>;
  /** What its bridge answers over the link that is up, measured by nothing; null when none is. Never throws. */
  heard(): Promise<BridgeAnswer | null>;
  /** Its resident processes; [] when it does not run, null when nobody can say now. */
  residents(): Promise<SeenResident[] | null>;
  /** Ends a member's resident process, unless it is in use. False when nobody can say that it has ended. */
  retire(member: string): Promise<boolean>;
}

export interface SandboxSightOptions {
  id: string;
  store: Pick<Store, "sandbox">;
  driver: Pick<SandboxDriver, "state" | "pinned" | "measure" | "hasImage">;
  /** Throws SANDBOX_UNKNOWN for one that is not there or is removed. */
  row(): SandboxRow;
  specOf(row: SandboxRow): SandboxSpec;
  /** Listens for a bridge that may still run. */
  attach(): Promise<void>;
  link(): SandboxLink | null;
  /** The link, once it is up within the limit. */
  connected(limitMs: number): Promise<SandboxLink>;
}

export function createSandboxSight(options: SandboxSightOptions): SandboxSight {
  const { id, store, driver, row, specOf, attach, connected } = options;

  async function look(): Promise<Sight> {
    let place: Sight["place"] = "unknown";
    try {
      const { container, ...found } = row();
      if (container === null) return { place: "stopped", status: null, why: "no container was made yet" };
      place = await driver.state(specOf({ container, ...found }), container.containerId);
      if (place !== "running") return { place, status: null, why: `the sandbox is ${place}` };
      await attach();
      const status = await (await connected(LOOK_MS)).request("bridge.status", {});
      return { place, status, why: "" };
    } catch (error) {
      return { place, status: null, why: asHoldfastError(error).message };
    }
  }

  /** Without a link: whether its processes can be there at all. */
  async function mayRun(): Promise<boolean> {
    const found = store.sandbox(id);
    if (found === null || found.container === null) return false;
    return (await driver.state(specOf(found), found.container.containerId)) === "running";
  }

  return {
    look,
    async probe() {
      const found = row();
      const way = async () => {
        await attach();
        return connected(LOOK_MS);
      };
      return probeSandbox({ row: found, spec: specOf(found), driver, link: way });
    },
    async heard() {
      const link = options.link();
      if (!link?.isUp()) return null;
      return askBridge({ row, driver, link });
    },
    async residents() {
      const link = options.link();
      if (link?.isUp()) return (await link.request("bridge.status", {})).members;
      return (await mayRun()) ? null : [];
    },
    async retire(member) {
      const link = options.link();
      if (!link?.isUp()) return !(await mayRun());
      try {
        await link.request("member.retire", { member });
        return true;
      } catch (error) {
        if (asHoldfastError(error).code === "MEMBER_BUSY") return false;
        throw error;
      }
    },
  };
}
