/**
 * Answers the permission requests of one turn: each once, by the member's policy, and sees the reply take effect.
 *
 *   asked (event or list) ─▶ ours? ─▶ decide ─▶ reply ─▶ confirmed by the native's own event, or gone from its list
 *                             │ no: none              └▶ failed: again, the same decision, up to TRIES ─▶ unresolved
 *
 * "Success" of the reply call proves nothing: the endpoint has answered 200 for ids that it did not know.
 */
import type { Clock } from "../../../protocol/clock.ts";
import { HoldfastError } from "../../../protocol/errors.ts";
import { NativeId } from "../../../protocol/ids.ts";
import type { PermissionPolicy, PermissionReply, PermissionRequest } from "../../../protocol/permission.ts";
import type { Observation } from "../driver.ts";
import type { ServeApi } from "./api.ts";

/** Replies to one request, the first included. */
const TRIES = 3;
/** How long the native's own event may take before the list is asked. */
const CONFIRM_MS = 1000;
const RETRY_WAIT_MS = 200;
/** Requests of one turn. Beyond: the turn is aborted as unresolved. */
const REQUESTS = 10_000;

export interface DeskOptions {
  api: ServeApi;
  clock: Clock;
  directory: string;
  policy: PermissionPolicy;
  limitMs: number;
  /** Whether the session belongs to the turn; asks the server when its ancestry is not known yet. */
  isOurs(session: string): Promise<boolean>;
  onObservation(observation: Extract<Observation, { kind: "permission_asked" | "permission_closed" }>): void;
  onUnresolved(detail: string): void;
}

export interface PermissionDesk {
  asked(request: { id: string; session: string; permission: string; patterns: readonly string[] }): void;
  replied(session: string, request: string): void;
  pending(): number;
  /** Nothing is answered any more; what is pending is closed in our books, and said so. */
  close(): void;
}

interface Open {
  request: PermissionRequest;
  reply: PermissionReply;
  isConfirmed: boolean;
  wake: () => void;
}

export function openPermissionDesk(options: DeskOptions): PermissionDesk {
  const { api, clock, directory } = options;
  const open = new Map<string, Open>();
  const seen = new Set<string>();
  let isClosed = false;
  const keyOf = (session: string, request: string) => `${session} ${request}`;

  function wait(ms: number, entry: Open): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(ms, resolve);
      entry.wake = () => {
        cancel();
        resolve();
      };
    });
  }

  function finish(entry: Open, result: "confirmed" | "unresolved" | "closed_by_end", detail: string): void {
    const key = keyOf(entry.request.session, entry.request.request);
    if (!open.delete(key)) return;
    entry.wake();
    const { request, session } = entry.request;
    options.onObservation({
      kind: "permission_closed",
      request,
      session,
      result,
      reply: entry.reply,
      detail,
    });
    if (result === "unresolved") options.onUnresolved(detail);
  }

  async function isStillPending(entry: Open): Promise<boolean> {
    const list = await api.pendingPermissions(directory);
    return list.some(
      ({ id, sessionID }) => id === entry.request.request && sessionID === entry.request.session,
    );
  }

  /** One try. Null when it took effect, otherwise what is wrong. */
  async function tryReply(entry: Open, limitMs: number): Promise<string | null> {
    let detail: string;
    try {
      const answer = await api.replyPermission(entry.request.request, entry.reply, limitMs);
      detail = `POST /permission/:id/reply answered ${answer.status}`;
    } catch (error) {
      detail = `POST /permission/:id/reply: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (!entry.isConfirmed && !isClosed) await wait(CONFIRM_MS, entry);
    if (entry.isConfirmed) return null;
    try {
      if (!(await isStillPending(entry))) return null;
      return `${detail}, and the request is still pending`;
    } catch (error) {
      return `${detail}; GET /permission: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  async function serve(entry: Open): Promise<void> {
    const deadlineMs = clock.monotonicMs() + options.limitMs;
    let problem = "no try was made";
    for (let tries = 1; tries <= TRIES && !isClosed; tries += 1) {
      const leftMs = deadlineMs - clock.monotonicMs();
      if (leftMs <= 0) break;
      const result = await tryReply(entry, leftMs);
      if (isClosed) return;
      if (result === null)
        return finish(entry, "confirmed", entry.isConfirmed ? "replied event" : "left the pending list");
      problem = result;
      await wait(RETRY_WAIT_MS, entry);
    }
    if (!isClosed) finish(entry, "unresolved", problem);
  }

  async function take(request: PermissionRequest): Promise<void> {
    if (!(await options.isOurs(request.session)) || isClosed) return;
    const entry: Open = {
      request,
      reply: options.policy === "allow" ? "once" : "reject",
      isConfirmed: false,
      wake: () => undefined,
    };
    open.set(keyOf(request.session, request.request), entry);
    options.onObservation({ kind: "permission_asked", request });
    await serve(entry);
  }

  return {
    asked({ id, session, permission, patterns }) {
      const key = keyOf(session, id);
      if (isClosed || seen.has(key)) return;
      seen.add(key);
      if (seen.size > REQUESTS)
        return options.onUnresolved(`more than ${REQUESTS} permission requests in one turn`);
      if (!NativeId.safeParse(id).success || !NativeId.safeParse(session).success) {
        return options.onUnresolved("a permission request has an unusable id");
      }
      take({
        request: id,
        session,
        permission: permission.slice(0, 128),
        patterns: patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
      }).catch((error: unknown) => {
        const detail = error instanceof HoldfastError ? error.message : String(error);
        options.onUnresolved(`a permission request could not be handled: ${detail}`);
      });
    },
    replied(session, request) {
      const entry = open.get(keyOf(session, request));
      if (entry === undefined) return;
      entry.isConfirmed = true;
      entry.wake();
    },
    pending: () => open.size,
    close() {
      if (isClosed) return;
      isClosed = true;
      for (const entry of [...open.values()]) finish(entry, "closed_by_end", "the turn ended");
    },
  };
}
