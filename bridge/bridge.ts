/**
 * A bridge, put together: journal, inlet, members and link. `main.ts` starts it and waits for signals.
 */
import { createHmac } from "node:crypto";
import type { HelperReport } from "../protocol/attestation.ts";
import type { BridgeConfig } from "../protocol/bridge-config.ts";
import type { Clock } from "../protocol/clock.ts";
import type { HoldfastError } from "../protocol/errors.ts";
import type { MethodTable } from "../protocol/methods.ts";
import { HELPER_FEATURES, HELPER_PIN } from "../protocol/pin.ts";
import { openInlet } from "./inlet.ts";
import { openJournal } from "./journal.ts";
import { startLinkClient } from "./link-client.ts";
import type { Log } from "./log.ts";
import { concludeLostTurns } from "./lost-turns.ts";
import { createMembers } from "./members.ts";
import { createOutbox } from "./outbox.ts";

export interface BridgeOptions {
  config: BridgeConfig;
  token: string;
  /** SHA-256 of the file that runs. */
  helperSha256: string;
  /** What the image's manifest says is in it; the configuration's own list where there is no image. */
  clis: HelperReport["clis"];
  clock: Clock;
  log: Log;
  /** The journal can't be written: nothing can be promised any more. */
  onBroken(error: HoldfastError): void;
}

export interface Bridge {
  /** Takes nothing new, ends turns and processes, hands the last events over if the controller is there. */
  stop(): Promise<void>;
}

/** How long the last events may take to be acknowledged at a stop. */
const FLUSH_MS = 2000;

export async function startBridge(options: BridgeOptions): Promise<Bridge> {
  const { config, clock, log } = options;
  const journal = await openJournal(`${config.stateDirectory}/journal`, { nowAt: () => clock.nowAt(), log });
  await concludeLostTurns(journal, clock);
  const inlet = await openInlet(config.modelSocket, log);
  const outbox = createOutbox({
    unacked: () => journal.state.unacked,
    textOf: (turn, part) => members.textOf(turn, part),
  });
  const members = createMembers({
    config,
    journal,
    outbox,
    clock,
    log,
    modelUrl: inlet.url,
    onReady: () => link.wake(),
    onBroken: options.onBroken,
  });

  const methods: MethodTable = {
    "bridge.challenge": async ({ nonce }) => ({
      pin: HELPER_PIN,
      features: [...HELPER_FEATURES],
      clis: options.clis,
      proof: challengeProof(options.token, nonce, options.helperSha256),
      helperSha256: options.helperSha256,
      epoch: journal.state.epoch,
    }),
    "bridge.status": async () => members.status(),
    "turn.submit": async (submission) => {
      await members.submit(submission);
      return {};
    },
    "turn.abort": async ({ turn }) => {
      members.abort(turn);
      return {};
    },
    "turn.recover": async ({ turn, member, number }) => {
      if (members.isActive(turn)) return { state: "active" };
      const known = journal.state.closed.get(turn);
      if (known !== undefined) return { state: known === "ended" ? "ended" : "never_received" };
      // A number that was accepted belongs to a turn whose end is no longer remembered.
      if (number <= (journal.state.numbers.get(member) ?? 0)) return { state: "forgotten" };
      await journal.append({ type: "turn.vetoed", member, turn });
      return { state: "never_received" };
    },
    "member.retire": async ({ member }) => ({ wasResident: await members.retire(member) }),
  };

  const link = startLinkClient({
    socketPath: config.controllerSocket,
    sandboxId: config.sandboxId,
    token: options.token,
    journal,
    outbox,
    methods,
    clock,
    log,
  });
  journal.onDurable(() => link.wake());

  return {
    async stop() {
      await members.stop();
      const deadlineMs = clock.monotonicMs() + FLUSH_MS;
      while (journal.state.unacked.length > 0 && clock.monotonicMs() < deadlineMs) {
        link.wake();
        await new Promise<void>((resolve) => clock.after(20, resolve));
      }
      link.stop();
      await inlet.close();
      await journal.close();
    },
  };
}

/** HMAC-SHA-256 with the sandbox's token over nonce and digest, hex: what a challenge is answered with. */
export function challengeProof(token: string, nonce: string, helperSha256: string): string {
  return createHmac("sha256", token).update(`${nonce}:${helperSha256}`).digest("hex");
}
