/**
 * What the suite must know of a CLI, and the stage on which its tests play: one host, one sandbox, and members that are
 * shared as long as they are well, so that one failed test does not fail those behind it.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { DriverManifest } from "../../../bridge/drivers/driver.ts";
import type { MemberOptions } from "../../../controller/store/records.ts";
import type { PermissionAction } from "../../../protocol/permission-policy.ts";
import { ALLOW_ALL } from "../../../protocol/permission-policy.ts";
import { isOpen } from "../../../protocol/record-state.ts";
import type { Settlement } from "../../../protocol/settlement.ts";
import type { Usage } from "../../../protocol/usage.ts";
import { startTestHost, type TestHost } from "../../support/host.ts";
import { play, tellOnFailure } from "../../support/turns.ts";
import { within } from "../../support/until.ts";

/** A tool call as the scripted model makes it. */
interface ScriptedCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** One CLI. Where it has no such tool, null: the manifest must say so too. */
export interface DriverSubject {
  readonly manifest: DriverManifest;
  readonly member: MemberOptions;
  /** Part of the command line of its resident process, and of no other process of a slot. */
  readonly processText: string;
  readonly tools: {
    shell(command: string): ScriptedCall;
    task: ((prompt: string) => ScriptedCall) | null;
    question: (() => ScriptedCall) | null;
  };
  /** What the CLI makes of a reply for which the model states 1234 in (234 of them cached) and 56 out (6 for reasoning). */
  readonly usage: Usage;
  /** The end of a turn whose tool call the user's policy rejected. */
  readonly rejected: { modelCalls: number };
  /** Its command behind a program that cuts the event stream at SIGUSR2; null for a CLI without one of its own. */
  readonly cutter: readonly string[] | null;
  /** Makes its server, which has that process, dispose of the workspace's instance; null for a CLI without one. */
  readonly dispose: ((pid: number, workspace: string) => Promise<void>) | null;
}

export const STATED_USAGE = {
  inputTokens: 1234,
  outputTokens: 56,
  cachedInputTokens: 234,
  reasoningTokens: 6,
} as const;

export interface Stage {
  readonly subject: DriverSubject;
  readonly t: TestHost;
  readonly sandbox: string;
  readonly workspace: string;
  /** A member that may have a past, and is free to take a turn. */
  steady(): string;
  /** A member of one permission policy, of which a tool must ask. */
  asked(action: PermissionAction): string;
  fresh(options?: Partial<MemberOptions>): string;
}

/** Opens one stage for a whole file. Each test finds an empty model. */
export function openStage(subject: DriverSubject): () => Stage {
  let stage: Stage | null = null;
  let end: () => Promise<void> = async () => undefined;
  beforeAll(async () => {
    stage = await makeStage(subject, (registered) => {
      end = registered;
    });
  });
  afterAll(() => end());
  beforeEach(() => {
    if (stage === null) throw new Error("the stage could not be opened");
    stage.t.model.reset();
    tellOnFailure(stage.t);
  });
  return () => {
    if (stage === null) throw new Error("the stage is not open");
    return stage;
  };
}

async function makeStage(subject: DriverSubject, atEnd: (end: () => Promise<void>) => void): Promise<Stage> {
  const t = await startTestHost({ atEnd });
  const sandbox = t.host.createSandbox({ kind: "process" }).id;
  const shared = new Map<string, string>();
  const { cli } = subject.manifest;

  function fresh(options: Partial<MemberOptions> = {}): string {
    return t.host.createMember({ sandbox, cli, ...subject.member, ...options }).id;
  }

  function keep(name: string, make: () => string): string {
    const known = shared.get(name);
    const last = known === undefined ? undefined : t.host.store.turnsOf(known, 1)[0];
    const isFree = last === undefined || !(isOpen(last.state) || last.state === "unknown");
    if (known !== undefined && isFree) return known;
    const made = make();
    shared.set(name, made);
    return made;
  }

  const tool = subject.tools.shell("").name;
  return {
    subject,
    t,
    sandbox,
    workspace: `${t.host.store.sandbox(sandbox)?.directory}/workspace`,
    fresh,
    steady: () => keep("steady", fresh),
    asked: (action) =>
      keep(action, () => fresh({ permissions: { ...ALLOW_ALL, rules: [{ tool, pattern: "*", action }] } })),
  };
}

/** A member that has a settled turn and a resident process. */
export async function settled(stage: Stage, member: string): Promise<string> {
  const { settlement } = await play(stage.t, member, "Say something before the test begins.");
  if (settlement.outcome !== "completed") throw new Error(`no turn before the test: ${settlement.outcome}`);
  stage.t.model.reset();
  return member;
}

/** Aborts, and gives the settlement when it is there. */
export async function abortOf(followed: {
  handle: { abort(): Promise<void> };
  end(): Promise<Settlement>;
}): Promise<Settlement> {
  await within("the abort's answer", followed.handle.abort(), 30_000);
  return followed.end();
}

export function fileIn(stage: Stage, name: string): string | null {
  try {
    return readFileSync(`${stage.workspace}/${name}`, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
