/**
 * Forks: copies the parent's native state into the new member's slot while the parent's CLI is at rest, and lets the CLI
 * fork the copy there. The parent's own files, id and process are only read from. Nothing of it is kept here: a fork that
 * a crash has cut off is made anew, from a new copy, and what it had made before was told to nobody.
 */
import type { Clock } from "../protocol/clock.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { Launch } from "../protocol/launch.ts";
import type { CliName } from "../protocol/locator.ts";
import type { Params, Result } from "../protocol/methods.ts";
import type { NativeFork } from "./drivers/driver.ts";
import type { Member } from "./member.ts";
import { copySlotState } from "./slot-copy.ts";

/**
 * A copy that lacks the parent's last settled turn may have come too early: Claude Code writes its transcript up to some
 * hundred ms behind its turn's end (measured), and nothing tells when. So it is copied again, so often, with such waits.
 */
const COPIES = 5;
const AGAIN_MS = 500;

export interface ForksOptions {
  clock: Clock;
  memberOf(id: string, launch: Launch): Member;
  forkOf(cli: CliName): NativeFork | null;
  hasOpenTurn(member: string): boolean;
  /** Highest turn number that was taken of the member. */
  lastNumber(member: string): number;
  copy?: typeof copySlotState;
}

export interface Forks {
  fork(params: Params<"member.fork">): Promise<Result<"member.fork">>;
  /** The member is being made as a fork now: it takes no turn. */
  isForking(member: string): boolean;
  /** Ends what is under way; resolves when nothing is. */
  stop(): Promise<void>;
}

export function createForks(options: ForksOptions): Forks {
  const { clock, copy = copySlotState } = options;
  const stopping = new AbortController();
  const running = new Map<string, { parent: string; result: Promise<Result<"member.fork">> }>();

  async function make(params: Params<"member.fork">): Promise<Result<"member.fork">> {
    const { member, parent, parentNumber, launch, locator } = params;
    const native = options.forkOf(launch.cli);
    if (native === null) throw new HoldfastError("FORK_UNSUPPORTED", `${launch.cli} has no fork of its own`);
    if (options.lastNumber(member) > 0)
      throw new HoldfastError("REQUEST_INVALID", "a member that has taken a turn can't become a fork");
    const child = options.memberOf(member, launch);
    const source = options.memberOf(parent, launch);
    for (let copies = 1; ; copies += 1) {
      const isMoved = options.lastNumber(parent) > parentNumber;
      if (isMoved || options.hasOpenTurn(parent))
        throw new HoldfastError(
          "MEMBER_BUSY",
          "the parent has taken a turn that the host has not heard of yet",
        );
      try {
        await source.atRest((from) =>
          child.atRest((to) => copy({ from, to, path: native.state, except: native.except, clock })),
        );
        return { session: await child.fork(launch, locator, stopping.signal) };
      } catch (error) {
        const isLost = error instanceof HoldfastError && error.code === "CONTEXT_LOST";
        if (!isLost || copies === COPIES || stopping.signal.aborted) throw error;
      }
      await new Promise<void>((resolve) => clock.after(AGAIN_MS, resolve));
    }
  }

  return {
    async fork(params) {
      const { member, parent } = params;
      const known = running.get(member);
      if (known !== undefined) {
        if (known.parent === parent) return known.result;
        throw new HoldfastError("REQUEST_INVALID", "the member is being made as another one's fork");
      }
      const result = make(params).finally(() => running.delete(member));
      running.set(member, { parent, result });
      return result;
    },
    isForking: (member) => running.has(member),
    async stop() {
      stopping.abort();
      await Promise.allSettled([...running.values()].map(({ result }) => result));
    },
  };
}
