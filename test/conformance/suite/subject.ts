/**
 * What the suite must know of a CLI, and the stage on which its tests play: one host, one sandbox, and members that are
 * shared as long as they are well, so that one failed test does not fail those behind it.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, beforeAll, beforeEach, onTestFinished } from "vitest";
import type { DriverManifest } from "../../../bridge/drivers/driver.ts";
import type { MemberOptions } from "../../../controller/store/records.ts";
import type { Locator } from "../../../protocol/locator.ts";
import { ALLOW_ALL, type MemberPolicy, type PermissionAction } from "../../../protocol/permission-policy.ts";
import { isOpen } from "../../../protocol/record-state.ts";
import type { Settlement } from "../../../protocol/settlement.ts";
import type { Usage } from "../../../protocol/usage.ts";
import { startTestHost, type TestHost, type TestHostOptions } from "../../support/host.ts";
import { ownTexts } from "../../support/model/additions.ts";
import type { ModelRequest } from "../../support/model/records.ts";
import { play, tellOnFailure } from "../../support/turns.ts";
import { within } from "../../support/until.ts";

/** A tool call as the scripted model makes it. */
interface ScriptedCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** A CLI's own server, as its tests may ask it directly; null for a CLI without one. */
export interface NativeServerFacts {
  readonly userName: string;
  readonly passwordVariable: string;
  /** Its command behind the program that breaks the connections to it, and notes their requests in the file. */
  readonly relay: (requests: string) => readonly string[];
  /** The file of its own settings, below the member's slot. */
  readonly settingsPath: string;
}

/** One CLI. Where it has no such tool, null: the manifest must say so too. */
export interface DriverSubject {
  readonly manifest: DriverManifest;
  readonly member: MemberOptions;
  /** Part of the command line of its resident process, and of no other process of a slot. */
  readonly processText: string;
  readonly tools: {
    shell(command: string): ScriptedCall;
    task: ((prompt: string, more?: Record<string, unknown>) => ScriptedCall) | null;
    /** The call by which the model waits for the child that the last one started; null where the first call waits itself. */
    taskEnd: (() => ScriptedCall) | null;
    question: (() => ScriptedCall) | null;
  };
  /** What the CLI makes of a reply for which the model states 1234 in (234 of them cached) and 56 out (6 for reasoning). */
  readonly usage: Usage;
  /** A part of its own that the CLI adds to each message of the user; null for one that adds none. */
  readonly addition: RegExp | null;
  /** Two tool calls of one answer ask at once; else the second asks when the first has its answer. */
  readonly asksAtOnce: boolean;
  /** The end of a turn whose tool call the user's policy rejected. */
  readonly rejected: { modelCalls: number };
  /** A rejected request takes the others that wait with it along. */
  readonly rejectsAll: boolean;
  /** What the tool of a rejected question is seen as. */
  readonly rejectedQuestion: "failed" | "completed";
  /** Its Task children may ask the user; else the tool fails at once, `unseen`: without a word of it. */
  readonly childrenAsk: boolean | "unseen";
  /** What it makes of an answer that the provider cut: always another call, or, as it comes, a failed turn. */
  readonly cutAnswer: "again" | "again or failed";
  /** A provider out of reach: tried again by itself like a 500, or parked until somebody answers. */
  readonly outOfReach: "retry" | "parked";
  /** A provider that asks for a day: waited for, tried again by a plan of its own, or not tried again at all. */
  readonly longWait: "heeds" | "tries again" | "gives up";
  /** It says when it will try a request again. */
  readonly tellsNextTry: boolean;
  /** What it passes on of a provider's 429 that says "the quota is spent". */
  readonly quotaText: string;
  /** Where a history that the provider calls too long is compacted: in that turn, at the beginning of the next one, or not for this. */
  readonly overflow: "same turn" | "next turn" | "never";
  /** A child that works on behind its turn wakes the root when it ends; else only the child is seen at work. */
  readonly wakesRoot: boolean;
  /** Calls of the model that it makes of a request which the provider answers with 400. */
  readonly badRequestCalls: number;
  /** A process that has tried a request again takes no further turn. */
  readonly retiresAfterRetry: boolean;
  /** The file into which it writes a turn a while behind its end; null for one that has written it by then. */
  readonly lateStore: ((home: string, locator: Locator) => string) | null;
  /** What it puts behind a text of the user that it sends together with the next one, in one message. */
  readonly joint: string;
  /** Characters of history that it keeps whole whatever happens: with less than that it compacts nothing. */
  readonly keptChars: number;
  /** Tools that work on behind their turn, as it calls them; not offered unless the member allows it. */
  readonly backgroundTools: readonly string[];
  /** History is ordered by message id: one in the future would shorten it. */
  readonly ordersById: boolean;
  readonly server: NativeServerFacts | null;
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
  readonly directory: string;
  readonly workspace: string;
  /** A member that may have a past, and is free to take a turn. */
  steady(): string;
  /** A member of one permission policy, of which a tool must ask; `expired` asks the user and soon gives up. */
  asked(way: PermissionAction | "expired"): string;
  fresh(options?: Partial<MemberOptions>): string;
  /** The same in a sandbox of the running test's own, which may be stopped without the others. */
  apart(): Stage;
}

/** Opens a stage for a whole file. Each test finds an empty model. */
export function openStage(subject: DriverSubject, options: TestHostOptions = {}): () => Stage {
  let stage: Stage | null = null;
  let end: () => Promise<void> = async () => undefined;
  beforeAll(async () => {
    stage = await makeStage(subject, {
      ...options,
      atEnd: (registered) => {
        end = registered;
      },
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

async function makeStage(subject: DriverSubject, options: TestHostOptions): Promise<Stage> {
  return stageOn(subject, await startTestHost(options));
}

function stageOn(subject: DriverSubject, t: TestHost): Stage {
  const sandbox = t.host.createSandbox({ kind: "process" }).id;
  const { directory } = t.host.store.sandbox(sandbox) ?? { directory: "" };
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

  /** Its Task children may have Task children of their own, as far as the CLI's settings can say so. */
  function nesting(member: string): string {
    if (subject.server !== null) putSettings(t, sandbox, member, subject.server, NESTING);
    return member;
  }

  return {
    subject,
    t,
    sandbox,
    directory,
    workspace: `${directory}/workspace`,
    fresh,
    apart() {
      const made = stageOn(subject, t);
      onTestFinished(() => t.host.removeSandbox(made.sandbox), 30_000);
      return made;
    },
    steady: () => keep("steady", fresh),
    asked: (way) => keep(way, () => nesting(fresh({ permissions: policyFor(subject, way) }))),
  };
}

/** Everything is allowed, but the shell needs what is said here. */
function policyFor({ tools }: DriverSubject, way: PermissionAction | "expired"): MemberPolicy {
  const tool = tools.shell("").name;
  if (way !== "expired") return { ...ALLOW_ALL, rules: [{ tool, pattern: "*", action: way }] };
  return {
    ...ALLOW_ALL,
    rules: [{ tool, pattern: "*", action: "ask" }],
    askLimitMs: 1000,
    askDefault: "deny",
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

/** What the user wrote, as a request has it: without what the CLI adds, which is checked to be what the subject says. */
export function spoken({ subject }: Stage, request: ModelRequest | undefined): string[] {
  const { joint } = subject;
  return (request?.request?.rows ?? []).flatMap((row) =>
    ownTexts(row).map((text) =>
      joint !== "" && text !== row.texts.at(-1) && text.endsWith(joint) ? text.slice(0, -joint.length) : text,
    ),
  );
}

/** An agent that may delegate further, and ask: the CLIs' own ones may not, and none may below the first level. */
export const NESTING_AGENT = "delegate";
const NESTING = {
  subagent_depth: 2,
  agent: {
    [NESTING_AGENT]: {
      description: "Delegates further.",
      mode: "subagent",
      permission: { task: "allow", question: "allow" },
    },
  },
};

/** Settings of the CLI's own, as a user may have them in the member's home. Before its first turn. */
export function putSettings(
  t: TestHost,
  sandbox: string,
  member: string,
  { settingsPath }: NativeServerFacts,
  settings: unknown,
): void {
  const path = `${t.host.store.sandbox(sandbox)?.directory}/slots/${member}/${settingsPath}`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, JSON.stringify(settings));
}

/** What the skip of a test has already made sure of. */
export function required<T>(value: T | null): T {
  if (value === null) throw new TypeError("this test needs what the CLI does not have");
  return value;
}

export function fileIn(stage: Stage, name: string): string | null {
  try {
    return readFileSync(`${stage.workspace}/${name}`, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
