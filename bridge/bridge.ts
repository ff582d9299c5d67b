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
import { modelToken } from "./model-token.ts";
import { createOutbox } from "./outbox.ts";
import { processesLeft } from "./process.ts";
import { reapSlots } from "./slots.ts";

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
  /**
   * Takes nothing new, ends turns, closes the CLIs' transports and processes until every slot is empty, hands the last
   * events over if the controller is there, and leaves the mark of a clean stop. Rejects when a slot could not be emptied.
   */
  stop(): Promise<void>;
}

/** How long the last events may take to be acknowledged at a stop. */
const FLUSH_MS = 2000;

export async function startBridge(options: BridgeOptions): Promise<Bridge> {
  const { config, clock, log } = options;
  const journal = await openJournal(`${config.stateDirectory}/journal`, { nowAt: () => clock.nowAt(), log });
  const left = await reapSlots(config, clock);
  if (left.length > 0)
    log.warn("processes of an earlier life are left", { error: processesLeft(left).message });
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
    modelToken: (member, processGeneration) =>
      modelToken(options.token, { member, epoch: journal.state.epoch, processGeneration }),
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
      earlierEnd: journal.state.earlierEnd,
    }),
    "bridge.status": () => members.status(),
    "turn.submit": async (submission) => {
      await members.submit(submission);
      return {};
    },
    "turn.abort": async ({ turn }) => {
      members.abort(turn);
      return {};
    },
    "permission.answer": async (params) => {
      members.answerPermission(params);
      return {};
    },
    "question.answer": async (params) => {
      members.answerQuestion(params);
      return {};
    },
    "turn.recover": async (params) => ({ state: await members.recover(params) }),
    "member.fork": (params) => members.fork(params),
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
      const [stopped] = await Promise.allSettled([members.stop()]);
      await inlet.close();
      const deadlineMs = clock.monotonicMs() + FLUSH_MS;
      while (journal.state.unacked.length > 0 && link.isTaken() && clock.monotonicMs() < deadlineMs) {
        link.wake();
        await new Promise<void>((resolve) => clock.after(20, resolve));
      }
      link.stop();
      await journal.close(stopped.status === "fulfilled");
      // Told last: what could not be ended must not keep the last events from the controller.
      if (stopped.status === "rejected") throw stopped.reason;
    },
  };
}

/** HMAC-SHA-256 with the sandbox's token over nonce and digest, hex: what a challenge is answered with. */
export function challengeProof(token: string, nonce: string, helperSha256: string): string {
  return createHmac("sha256", token).update(`${nonce}:${helperSha256}`).digest("hex");
}
