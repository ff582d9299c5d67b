/**
 * A host: one store, its sandboxes and members, and the turns that run now. The library's entrance.
 */
import { randomUUID } from "node:crypto";
import { totalmem } from "node:os";
import * as z from "zod/mini";
import type { Clock } from "../protocol/clock.ts";
import { asHoldfastError, type ErrorCode, HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import { CliName } from "../protocol/locator.ts";
import { METHODS, type Params } from "../protocol/methods.ts";
import { ALLOW_ALL } from "../protocol/permission-policy.ts";
import { isOpen } from "../protocol/record-state.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { admitTurn, launchOf, launchText } from "./admission.ts";
import { realClock } from "./clock.ts";
import { type HostReport, hostReport } from "./host-report.ts";
import { hostSettlement } from "./host-settlement.ts";
import { openRequests, type UserRequest } from "./open-requests.ts";
import { reconcile } from "./reconcile.ts";
import { checkedBase, type ModelRoute } from "./relay/forwarder.ts";
import { createResidency, RESIDENCY_DEFAULTS } from "./residency.ts";
import type { ResidencyLimits } from "./residency-decision.ts";
import { createLiveSandbox, type LiveSandbox } from "./sandbox-handle.ts";
import { sandboxPaths } from "./sandboxes/directory.ts";
import type { SandboxDriver } from "./sandboxes/sandbox.ts";
import {
  MemberOptions,
  type MemberRow,
  type SandboxKind,
  type SandboxRow,
  type TurnRow,
} from "./store/records.ts";
import { openStore } from "./store/sqlite-store.ts";
import type { Store } from "./store/store.ts";
import { createLiveTurn, type TurnHandle } from "./turn-handle.ts";

export interface HostOptions {
  /** Folder of the store and of the sandboxes' sockets; made when missing, owner-only. */
  directory: string;
  /** One driver a kind of sandbox that this host offers. */
  drivers: readonly SandboxDriver[];
  model: ModelRoute;
  clock?: Clock;
  /** How many CLI processes may be resident and start, and for how long. Default: see there; memory half of the machine's. */
  residency?: Partial<ResidencyLimits>;
  /** Things that went wrong and were handled; never a user's or a model's text. */
  onWarning?: (what: string, detail: string) => void;
}

export interface TurnOptions {
  /** The platform's own id for the turn; made when missing. */
  id?: string;
  /** Limit of the whole turn, ms; the bridge's own when missing. */
  limitMs?: number;
}

export interface Host {
  /** Makes a sandbox. Nothing runs yet. Throws SANDBOX_EXISTS. */
  createSandbox(options: { kind: SandboxKind; id?: string }): SandboxRow;
  sandboxes(): SandboxRow[];
  /** Starts it and attests its helper, without a turn. Throws ATTESTATION_FAILED with every reason. */
  startSandbox(id: string): Promise<void>;
  /** Stops it; its files and conversations stay. Throws MEMBER_BUSY while a turn runs, unless `abort`. */
  stopSandbox(id: string, options?: { abort?: boolean }): Promise<void>;
  /** Removes it with everything in it. May be repeated. */
  removeSandbox(id: string): Promise<void>;
  /** Default: everything is allowed, once each, and nothing works on behind a turn that has ended. */
  createMember(
    options: { sandbox: string; cli: CliName; id?: string } & Pick<MemberOptions, "model"> &
      Partial<MemberOptions>,
  ): MemberRow;
  member(id: string): MemberRow;
  membersOf(sandbox: string): MemberRow[];
  /** Submits a message. Returns once the turn is durable here; everything else is the handle's to tell. */
  submit(member: string, text: string, options?: TurnOptions): TurnHandle;
  /** A turn that runs now, or null. */
  running(turn: string): TurnHandle | null;
  turn(id: string): TurnRow;
  /** Permissions and questions of the member that wait for the user, oldest first; also after a restart. */
  openRequests(member: string): UserRequest[];
  /** Throws REQUEST_UNKNOWN, REQUEST_CLOSED, ABORT_NO_TURN. The turn's events tell what became of it. */
  answerPermission(params: Params<"permission.answer">): Promise<void>;
  /** `answers` null rejects the question. Throws as above, and REQUEST_INVALID for answers that do not fit. */
  answerQuestion(params: Params<"question.answer">): Promise<void>;
  /** Resident processes, retained members, turns that wait for a start, memory. */
  report(): HostReport;
  readonly store: Store;
  /** Lets go of everything; sandboxes and their turns go on. */
  close(): Promise<void>;
}

/** What a bridge answers when it did not take the turn; after every other failure nobody knows. */
const NOT_TAKEN: ReadonlySet<ErrorCode> = new Set([
  ...METHODS["turn.submit"].errors,
  "FENCED",
  "FRAME_TOO_LARGE",
  "METHOD_UNKNOWN",
  "OVERLOADED",
  "REQUEST_INVALID",
]);

/** Opens the host: takes the store, and takes up the turns that an earlier controller left. Throws STORE_OWNED. */
export async function openHost(options: HostOptions): Promise<Host> {
  checkedBase(options.model);
  const clock = options.clock ?? realClock;
  const onWarning = options.onWarning ?? (() => undefined);
  const drivers = new Map(options.drivers.map((driver) => [driver.kind, driver]));
  const versions = new Map<string, string>();
  const live = new Map<string, LiveSandbox>();
  const store = openStore({
    directory: options.directory,
    nowAt: () => clock.nowAt(),
    cliVersion: (cli) => versions.get(cli) ?? "unknown",
  });

  const residency = createResidency({
    store,
    clock,
    limits: { memoryBytes: totalmem() / 2, ...RESIDENCY_DEFAULTS, ...options.residency },
    look: (sandbox) => sandboxOf(sandbox).residents(),
    retire: (sandbox, member) => sandboxOf(sandbox).retire(member),
    onWarning,
  });

  function driverOf(kind: SandboxKind): SandboxDriver {
    const driver = drivers.get(kind);
    if (driver === undefined)
      throw new HoldfastError("ENGINE_MISSING", `this host offers no ${kind} sandboxes`);
    return driver;
  }

  function sandboxOf(id: string): LiveSandbox {
    const known = live.get(id);
    if (known !== undefined) return known;
    const row = store.sandbox(id);
    if (row === null) throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${id}`);
    const made = createLiveSandbox(id, {
      store,
      driver: driverOf(row.kind),
      paths: sandboxPaths(options.directory, id),
      clock,
      route: options.model,
      onWarning: (what, detail) => onWarning(`sandbox ${id}: ${what}`, detail),
      observer: {
        applied: residency.applied,
        settled: residency.left,
        linkUp: () => residency.linkUp(id),
      },
    });
    live.set(id, made);
    return made;
  }

  function memberRow(id: string): MemberRow {
    const found = store.member(id);
    if (found === null) throw new HoldfastError("MEMBER_UNKNOWN", `no member ${id}`);
    return found;
  }

  function turnRow(id: string): TurnRow {
    const found = store.turn(id);
    if (found === null) throw new HoldfastError("TURN_UNKNOWN", `no turn ${id}`);
    return found;
  }

  /** @param sent settles when the turn was handed to the bridge, or will not be */
  function follow(turn: TurnRow, sandbox: LiveSandbox, sent: Promise<void>) {
    const made = createLiveTurn({
      id: turn.id,
      member: turn.member,
      number: turn.number,
      async abort() {
        const why = "it was ended while it waited for a start";
        if (residency.cancel(turn.id, new HoldfastError("OVERLOADED", why))) return;
        // An abort that overtakes the submission would find no turn, and the turn would run on.
        await sent;
        const row = store.turn(turn.id);
        if (row === null || !isOpen(row.state)) throw new HoldfastError("ABORT_NO_TURN");
        const { link } = await sandbox.ready();
        await link.request("turn.abort", { turn: turn.id });
      },
    });
    sandbox.turns.set(turn.id, made);
    return made;
  }

  /** From here on nothing is thrown to the caller: whatever happens is the turn's own end. */
  async function send(
    row: { turn: TurnRow; member: MemberRow },
    text: string,
    limitMs: number,
    sent: () => void,
  ): Promise<void> {
    const { turn, member } = row;
    const sandbox = sandboxOf(member.sandbox);
    let wasSent = false;
    try {
      const pinned = await driverOf(store.sandbox(member.sandbox)?.kind ?? "docker").pinned();
      for (const { cli, version } of pinned.clis) versions.set(cli, version);
      const launch = launchOf(member, pinned);
      const queuedMs = await residency.enter(turn.id, member.id);
      if (!isOpen(turnRow(turn.id).state)) return;
      store.noteLaunch(turn.id, Buffer.from(launchText(member, pinned)), queuedMs);
      const { link, container, outdated } = await sandbox.ready();
      if (outdated !== null) throw new HoldfastError("SANDBOX_OUTDATED", outdated);
      // Nothing is awaited between here and the request: the bridge is the one that was attested, the turn is open.
      if (!isOpen(turnRow(turn.id).state)) return;
      sent();
      wasSent = true;
      await link.request("turn.submit", {
        turn: turn.id,
        member: member.id,
        number: turn.number,
        text,
        launch,
        locator: member.pending_locator ?? member.locator,
        locatorIsPending: member.pending_locator !== null,
        settledTurns: member.settled_turns,
        container,
        limitMs,
      });
    } catch (error) {
      const fault = asHoldfastError(error);
      if (!wasSent || NOT_TAKEN.has(fault.code)) return endUnsent(row, fault);
      // Nobody knows whether the bridge took it: it is asked, now or as soon as it is back.
      if (fault.code !== "LINK_CLOSED") sandbox.recover();
    } finally {
      sent();
    }
  }

  function endUnsent({ turn, member }: { turn: TurnRow; member: MemberRow }, fault: HoldfastError): void {
    const isLost = fault.code === "CONTEXT_LOST" && member.settled_turns > 0;
    const settlement: Settlement = hostSettlement({
      outcome: isLost ? "refused" : "not_sent",
      code: fault.code,
      reason: fault.message,
      what: "not_submitted",
      at: clock.nowAt(),
      ...(isLost ? { context: "LOST" as const } : {}),
    });
    residency.left(turn.id);
    if (!store.end(turn.id, settlement)) return;
    const sandbox = sandboxOf(member.sandbox);
    sandbox.turns.get(turn.id)?.settle(settlement);
    sandbox.turns.delete(turn.id);
  }

  async function takeUp(row: SandboxRow): Promise<void> {
    const open = store.openTurnsOf(row.id);
    if (!drivers.has(row.kind)) return;
    const hasResidents = store.residents().some(({ sandbox }) => sandbox === row.id);
    if (open.length === 0) return hasResidents ? sandboxOf(row.id).attach() : undefined;
    const sandbox = sandboxOf(row.id);
    for (const turn of open) follow(turn, sandbox, Promise.resolve());
    await sandbox.takeUp();
  }

  /** Mends what a crash left between a record and its effect. An engine that does not answer is no reason not to open. */
  async function mend(driver: SandboxDriver): Promise<void> {
    const rows = store.sandboxes();
    const { remove, strange } = reconcile(rows, await driver.list(store.id));
    for (const { sandboxId, containerId } of remove) {
      const { generation, directory } = present(rows.find(({ id }) => id === sandboxId) ?? null);
      await driver.remove({ storeId: store.id, sandboxId, generation, directory }, containerId);
    }
    for (const { sandboxId, containerId } of strange) {
      onWarning(`a ${driver.kind} sandbox is not the store's`, `${sandboxId || "?"} ${containerId}`);
    }
  }

  for (const driver of options.drivers) {
    await mend(driver).catch((error: unknown) =>
      onWarning(`${driver.kind} sandboxes`, asHoldfastError(error).message),
    );
    const build = await driver.pinned().catch((error: unknown) => {
      onWarning(`${driver.kind} sandboxes`, asHoldfastError(error).message);
      return null;
    });
    for (const { cli, version } of build?.clis ?? []) versions.set(cli, version);
  }
  try {
    for (const row of store.sandboxes()) if (row.wanted !== "removed") await takeUp(row);
  } catch (error) {
    residency.close();
    for (const sandbox of live.values()) await sandbox.close();
    store.close();
    throw error;
  }

  /** Asks the bridge that has the turn. */
  async function ask<M extends "permission.answer" | "question.answer">(
    turn: string,
    method: M,
    params: Params<M>,
  ) {
    const sandbox = sandboxOf(memberRow(turnRow(turn).member).sandbox);
    const { link } = await sandbox.ready();
    return link.request(method, params);
  }

  return {
    store,
    createSandbox({ kind, id }) {
      driverOf(kind);
      const sandboxId = id ?? `sb-${randomUUID().slice(0, 8)}`;
      checkId(sandboxId, "sandbox");
      const { directory } = sandboxPaths(options.directory, sandboxId);
      store.createSandbox({ id: sandboxId, kind, directory });
      return present(store.sandbox(sandboxId));
    },
    sandboxes: () => store.sandboxes().filter(({ wanted }) => wanted !== "removed"),
    async startSandbox(id) {
      await sandboxOf(id).ready();
    },
    stopSandbox: (id, { abort = false } = {}) => sandboxOf(id).stop({ abort }),
    removeSandbox: (id) => sandboxOf(id).remove(),
    createMember({ sandbox, cli, id, model, permissions = ALLOW_ALL, background = false }) {
      const row = store.sandbox(sandbox);
      if (row === null || row.wanted === "removed")
        throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${sandbox}`);
      const memberId = id ?? `m-${randomUUID().slice(0, 8)}`;
      checkId(memberId, "member");
      const parsed = NewMember.safeParse({ cli, options: { model, permissions, background } });
      if (!parsed.success) {
        const where = parsed.error.issues[0]?.path.join(".") ?? "";
        throw new HoldfastError("REQUEST_INVALID", `a member can't be made like this (${where})`);
      }
      store.createMember({ id: memberId, sandbox, ...parsed.data });
      return memberRow(memberId);
    },
    member: memberRow,
    membersOf: (sandbox) => store.membersOf(sandbox),
    submit(member, text, { id, limitMs = 0 } = {}) {
      const sandbox = sandboxOf(memberRow(member).sandbox);
      const row = admitTurn(store, member, text, id);
      const sent = sandbox.holdUnsent(row.turn.id);
      const sending = Promise.withResolvers<void>();
      const turn = follow(row.turn, sandbox, sending.promise);
      send(row, text, limitMs, sent)
        .catch((error: unknown) => {
          onWarning(`turn ${row.turn.id}`, asHoldfastError(error).message);
          turn.fail(asHoldfastError(error));
        })
        .finally(sending.resolve);
      return turn.handle;
    },
    running(turn) {
      for (const sandbox of live.values()) {
        const found = sandbox.turns.get(turn);
        if (found !== undefined) return found.handle;
      }
      return null;
    },
    turn: turnRow,
    openRequests: (member) =>
      store
        .openTurnsOf(memberRow(member).sandbox)
        .filter((turn) => turn.member === member)
        .flatMap((turn) => openRequests(store.eventsOf(turn.id))),
    async answerPermission(params) {
      await ask(params.turn, "permission.answer", params);
    },
    async answerQuestion(params) {
      await ask(params.turn, "question.answer", params);
    },
    report: () => hostReport(store),
    async close() {
      residency.close();
      // All at once: each may wait for its engine.
      await Promise.all([...live.values()].map((sandbox) => sandbox.close()));
      store.close();
    },
  };
}

const NewMember = z.object({ cli: CliName, options: MemberOptions });

function checkId(id: string, what: string): void {
  if (!OurId.safeParse(id).success)
    throw new HoldfastError("REQUEST_INVALID", `${id} can't be the id of a ${what}`);
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that was just made is not there");
  return value;
}
