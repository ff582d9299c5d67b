/**
 * What a controller that runs says of itself to whoever looks at its store from beside: `controller.json` in the store's folder,
 * written every few seconds while it owns the store, and taken away when it closes. One that hangs or was killed leaves an old
 * one. In it: which revision it began with, and what each bridge on its links answered to a fresh challenge. No part of the
 * store: nothing is decided by it, and losing it loses nothing.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError } from "../protocol/errors.ts";
import { Count, Digest, OurId } from "../protocol/ids.ts";
import { parsedJson } from "./parsed-json.ts";
import { readRevision } from "./revision.ts";
import type { BridgeAnswer } from "./sandbox-probe.ts";

/** Between two heartbeats. */
const BEAT_MS = 5000;
/** A heartbeat that is older is not fresh: two were missed, and the challenges of one may take a while. */
export const FRESH_MS = 20_000;
const FILE = "controller.json";

const Heartbeat = z.object({
  version: z.string().check(z.maxLength(64)),
  revision: Digest,
  pid: Count,
  fence: Count,
  /** Epoch ms. */
  beganAt: Count,
  beatAt: Count,
  /** Of every bridge that is on a link. */
  bridges: z.array(
    z.object({
      sandbox: OurId,
      reasons: z.array(z.string().check(z.maxLength(4000))).check(z.maxLength(256)),
      report: z.nullable(z.object({ pin: z.string(), helperSha256: Digest, epoch: Count })),
      heartbeatMs: z.nullable(z.number()),
    }),
  ),
});
export type Heartbeat = z.infer<typeof Heartbeat>;

export interface HeartbeatOptions {
  directory: string;
  store: { readonly fence: number; checkOwned(): void };
  clock: Clock;
  /** The sandboxes that the controller has looked at since it began, by id. */
  live: ReadonlyMap<string, { heard(): Promise<BridgeAnswer | null> }>;
  onWarning(what: string, detail: string): void;
}

/** Begins at once. The result ends it and takes the file away; a beat that is under way is not written any more. */
export function startHeartbeat(options: HeartbeatOptions): () => void {
  const { directory, store, clock, onWarning } = options;
  const path = join(directory, FILE);
  const beganAt = clock.nowAt();
  let isStopped = false;
  let isWritten = false;
  let cancel: () => void = () => undefined;
  const revision = readRevision();

  async function beat(): Promise<void> {
    const { version, sha256 } = await revision;
    const answers = await Promise.all(
      [...options.live].map(async ([sandbox, { heard }]) => ({ sandbox, answer: await heard() })),
    );
    const bridges = answers.flatMap(({ sandbox, answer }) =>
      answer === null ? [] : [{ sandbox, ...answer }],
    );
    if (isStopped) return;
    store.checkOwned();
    const made: Heartbeat = {
      version,
      revision: sha256,
      pid: process.pid,
      fence: store.fence,
      beganAt,
      beatAt: clock.nowAt(),
      bridges,
    };
    const aside = `${path}.${store.fence}`;
    writeFileSync(aside, `${JSON.stringify(made)}\n`, { mode: 0o600 });
    renameSync(aside, path);
    isWritten = true;
  }

  function next(): void {
    beat()
      .catch((error: unknown) => {
        const fault = asHoldfastError(error, "STORE_ERROR");
        // Another controller's by now: whoever watches the ownership tells it.
        if (!isStopped && fault.code !== "FENCED") onWarning("the heartbeat can't be written", fault.message);
      })
      .finally(() => {
        if (!isStopped) cancel = clock.after(BEAT_MS, next);
      });
  }
  next();

  return () => {
    isStopped = true;
    cancel();
    // A successor may have put its own in the place.
    if (isWritten && readHeartbeat(directory)?.fence === store.fence) rmSync(path, { force: true });
  };
}

/** Null when no controller left one, or none that can be read. */
export function readHeartbeat(directory: string): Heartbeat | null {
  let text: string;
  try {
    text = readFileSync(join(directory, FILE), "utf8");
  } catch {
    // Not there, or not ours to read: in both cases nobody says anything.
    return null;
  }
  const parsed = Heartbeat.safeParse(parsedJson(text));
  return parsed.success ? parsed.data : null;
}
