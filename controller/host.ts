/**
 * A host: one store, its sandboxes and members, and the turns that run now. The library's entrance.
 */
import { randomUUID } from "node:crypto";
import { totalmem } from "node:os";
import { asHoldfastError, type ErrorCode, HoldfastError } from "../protocol/errors.ts";
import { METHODS, type Params } from "../protocol/methods.ts";
import { ALLOW_ALL } from "../protocol/permission-policy.ts";
import { isOpen } from "../protocol/record-state.ts";
import type { Settlement } from "../protocol/settlement.ts";
import { admitTurn, checkSameTurn, launchOf, launchText } from "./admission.ts";
import { realClock } from "./clock.ts";
import { createDeployment } from "./deployment.ts";
import { createForking, originOf } from "./forks.ts";
import type { Host, HostOptions } from "./host-contract.ts";
import { hostReport } from "./host-report.ts";
import { hostSettlement } from "./host-settlement.ts";
import { watchTenancy } from "./hosts/tenancy.ts";
import { CALLS_NAMED, checkNote, inspectTurn } from "./inspection.ts";
import { checkedMember, checkId } from "./member-check.ts";
import { mendKinds } from "./mending.ts";
import { openRequests } from "./open-requests.ts";
import { outlookOf } from "./outlook.ts";
import { openRelay } from "./relay/relay.ts";
import { createResidency, RESIDENCY_DEFAULTS } from "./residency.ts";
import { createLiveSandbox, type LiveSandbox } from "./sandbox-handle.ts";
import { sandboxPaths } from "./sandboxes/directory.ts";
import type { SandboxDriver } from "./sandboxes/sandbox.ts";
import { openStore, storePlace } from "./store/open-store.ts";
import type { MemberRow, SandboxKind, SandboxRow, TurnRow } from "./store/records.ts";
import { createLiveTurn, endedTurn, type TurnHandle } from "./turn-handle.ts";
import { usageReport } from "./usage-report.ts";

export type { Host, HostOptions, TurnOptions } from "./host-contract.ts";

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
  const clock = options.clock ?? realClock;
  const onWarning = options.onWarning ?? (() => undefined);
  const takeOver = options.takeOver === true;
  const drivers = new Map(options.drivers.map((driver) => [driver.kind, driver]));
  const versions = new Map<string, string>();
  const live = new Map<string, LiveSandbox>();
  const relay = openRelay(options.relay, {
    clock,
    variables: options.variables ?? process.env,
    calls: () => store.calls,
    onWarning,
  });
  const store = openStore({
    ...storePlace(options),
    takeOver,
    nowAt: () => clock.nowAt(),
    cliVersion: (cli) => versions.get(cli) ?? "unknown",
  });

  const tenancy = watchTenancy({
    store,
    clock,
    onLost(fault) {
      onWarning("this controller drives nothing any more", fault.message);
      residency.close();
      for (const sandbox of live.values())
        sandbox.close(fault).catch((error: unknown) => onWarning("closing", asHoldfastError(error).message));
    },
    onState: (state) => onWarning("this host is another one by now", state),
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
    tenancy.checkHome(id);
    store.checkOwned();
    const made = createLiveSandbox(id, {
      store,
      driver: driverOf(row.kind),
      paths: sandboxPaths(options.directory, id),
      clock,
      takeOver,
      relay,
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

  async function pinnedOf(sandbox: string) {
    const pinned = await driverOf(store.sandbox(sandbox)?.kind ?? "docker").pinned();
    for (const { cli, version } of pinned.clis) versions.set(cli, version);
    return pinned;
  }

  const ready = async (sandbox: string) => sandboxOf(sandbox).ready();
  const forkMember = createForking({ store, residency, ready, pinned: pinnedOf });

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
        store.checkOwned();
        await link.request("turn.abort", { turn: turn.id });
      },
    });
    sandbox.turns.set(turn.id, made);
    return made;
  }

  /** The same message under the same id: nothing is sent again, and its one turn is given. */
  function submittedBefore(turn: TurnRow, member: string, text: string): TurnHandle {
    checkSameTurn(turn, member, text);
    const { id, number, settlement } = turn;
    if (settlement !== null) return endedTurn({ id, member, number, settlement });
    const sandbox = sandboxOf(memberRow(member).sandbox);
    const running = sandbox.turns.get(id);
    if (running !== undefined) return running.handle;
    // Its commit was answered to nobody: the bridge knows whether it was sent.
    const { handle } = follow(turn, sandbox, Promise.resolve());
    sandbox.recover();
    return handle;
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
      const pinned = await pinnedOf(member.sandbox);
      const { launch, launchParts } = launchOf(member, pinned);
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
        launchParts,
        ...originOf(store, member),
        locatorIsPending: member.pending_locator !== null,
        mustProve: member.must_prove,
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

  /** One that can't be taken up keeps nobody from the others: it is not ready, with the reason, and is tried again. */
  async function takeUp(row: SandboxRow): Promise<void> {
    const open = store.openTurnsOf(row.id);
    if (!drivers.has(row.kind)) return;
    const hasResidents = store.residents().some(({ sandbox }) => sandbox === row.id);
    if (open.length === 0) return hasResidents ? sandboxOf(row.id).attach() : undefined;
    const sandbox = sandboxOf(row.id);
    for (const turn of open) follow(turn, sandbox, Promise.resolve());
    const fault = await sandbox.takeUp();
    if (fault === null) return;
    store.setUnready(row.id, [fault.message]);
    onWarning(`sandbox ${row.id} can't be taken up`, fault.message);
  }

  for (const { cli, version } of await mendKinds(store, options.drivers, onWarning))
    versions.set(cli, version);
  try {
    store.calls.budgets.settleLeft();
    for (const row of store.sandboxes()) if (row.wanted !== "removed") await takeUp(row);
  } catch (error) {
    tenancy.stop();
    residency.close();
    for (const sandbox of live.values()) await sandbox.close();
    store.close();
    throw error;
  }

  const deployment = createDeployment({ options, store, drivers, clock, live, sandboxOf, onWarning });

  /** Asks the bridge that has the turn. */
  async function ask<M extends "permission.answer" | "question.answer">(
    turn: string,
    method: M,
    params: Params<M>,
  ) {
    const sandbox = sandboxOf(memberRow(turnRow(turn).member).sandbox);
    const { link } = await sandbox.ready();
    store.checkOwned();
    return link.request(method, params);
  }

  return {
    store,
    createSandbox({ kind, id }) {
      driverOf(kind);
      tenancy.checkTakesWork();
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
    createMember({ sandbox, cli, id, ...given }) {
      const row = store.sandbox(sandbox);
      if (row === null || row.wanted === "removed")
        throw new HoldfastError("SANDBOX_UNKNOWN", `no sandbox ${sandbox}`);
      const memberId = id ?? `m-${randomUUID().slice(0, 8)}`;
      checkId(memberId, "member");
      const options = { permissions: ALLOW_ALL, background: false, ...given };
      const checked = checkedMember({ cli, options });
      store.createMember({ id: memberId, sandbox, ...checked });
      return memberRow(memberId);
    },
    forkMember,
    member: memberRow,
    setBudget: (member, limitTokens) => store.calls.budgets.set(member, limitTokens),
    budgetOf: (member) => store.calls.budgets.of(memberRow(member).id),
    changeMember(id, changes) {
      const { cli, options: known } = memberRow(id);
      store.setMemberOptions(id, checkedMember({ cli, options: { ...known, ...changes } }).options);
      return memberRow(id);
    },
    async nextContext(id) {
      const member = memberRow(id);
      const sandbox = present(store.sandbox(member.sandbox));
      // One that was removed is gone, and so is a kind that this host does not offer: nobody can be asked.
      const isThere = sandbox.wanted !== "removed" && drivers.has(sandbox.kind);
      const sight = isThere ? await sandboxOf(sandbox.id).look() : null;
      const pinned =
        (await drivers
          .get(sandbox.kind)
          ?.pinned()
          .catch(() => null)) ?? null;
      return outlookOf({ store, member: memberRow(id), sandbox, sight, pinned });
    },
    unrequestedOf: (id) => store.unrequestedOf(memberRow(id).id),
    membersOf: (sandbox) => store.membersOf(sandbox),
    submit(member, text, { id, limitMs = 0 } = {}) {
      const known = id === undefined ? null : store.turn(id);
      if (known !== null) return submittedBefore(known, member, text);
      const sandbox = sandboxOf(memberRow(member).sandbox);
      tenancy.checkTakesWork();
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
    inspect(id) {
      const turn = turnRow(id);
      return inspectTurn({
        turn,
        member: memberRow(turn.member),
        events: store.eventsOf(id),
        inspection: store.inspectionOf(id),
        calls: store.calls.list({ turn: id }, CALLS_NAMED),
      });
    },
    recordInspection: (turn, note) => store.recordInspection(turn, checkNote(note)),
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
    deployment: deployment.report,
    report: () => hostReport(store),
    usage: (of) => usageReport(store, of),
    async close() {
      deployment.close();
      tenancy.stop();
      residency.close();
      // All at once: each may wait for its engine.
      await Promise.all([...live.values()].map((sandbox) => sandbox.close()));
      await relay.settled();
      relay.close();
      store.close();
    },
  };
}

function present<T>(value: T | null): T {
  if (value === null) throw new HoldfastError("STORE_ERROR", "a record that was just made is not there");
  return value;
}
