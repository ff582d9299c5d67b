/**
 * Answers the permission requests of one turn: each once, by the member's policy, and sees the reply take effect.
 *
 *   asked (event or list) ─▶ ours? ─▶ decide ─▶ reply ─▶ confirmed by the native's own event, or gone from its list
 *                             │ no: none              ├▶ failed: again, the same decision, up to TRIES ─▶ unresolved
 *                                                     └▶ 404, and gone: the CLI withdrew it; its tool must end ─▶ closed
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
  /** Whether the tool call that asked has not ended. */
  isAtWork(session: string, call: string): boolean;
  onObservation(observation: Extract<Observation, { kind: "permission_asked" | "permission_closed" }>): void;
  onUnresolved(detail: string): void;
}

export interface PermissionDesk {
  asked(request: NativeRequest): void;
  replied(session: string, request: string): void;
  pending(): number;
  /** Nothing is answered any more; what is pending is closed in our books, and said so. */
  close(): void;
}

interface NativeRequest {
  id: string;
  session: string;
  permission: string;
  patterns: readonly string[];
  /** The tool call that waits for the answer, or null when the CLI names none. */
  call: string | null;
}

interface Open {
  request: PermissionRequest;
  call: string | null;
  reply: PermissionReply;
  isConfirmed: boolean;
  wake: () => void;
}

/** What became of one try. `gone`: the CLI does not know the request, and does not list it. */
type Attempt = { kind: "done" | "failed" | "gone"; detail: string };

export function openPermissionDesk(options: DeskOptions): PermissionDesk {
  const { api, clock, directory } = options;
  const open = new Map<string, Open>();
  const seen = new Set<string>();
  /** Reported as replied before we had opened them: by a sibling's cascade, or by somebody else. */
  const repliedEarly = new Set<string>();
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

  async function isStillPending(entry: Open, limitMs: number): Promise<boolean> {
    const list = await api.pendingPermissions(directory, limitMs);
    return list.some(
      ({ id, sessionID }) => id === entry.request.request && sessionID === entry.request.session,
    );
  }

  async function tryReply(entry: Open, limitMs: number): Promise<Attempt> {
    let detail: string;
    let isUnknown = false;
    try {
      const answer = await api.replyPermission(entry.request.request, entry.reply, limitMs);
      isUnknown = answer.status === 404;
      detail = `POST /permission/:id/reply answered ${answer.status}`;
    } catch (error) {
      detail = `POST /permission/:id/reply: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (!entry.isConfirmed && !isClosed) await wait(CONFIRM_MS, entry);
    if (entry.isConfirmed) return { kind: "done", detail: "replied event" };
    try {
      if (await isStillPending(entry, limitMs)) {
        return { kind: "failed", detail: `${detail}, and the request is still pending` };
      }
      if (entry.isConfirmed) return { kind: "done", detail: "replied event" };
      return isUnknown ? { kind: "gone", detail } : { kind: "done", detail: "left the pending list" };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { kind: "failed", detail: `${detail}; GET /permission: ${why}` };
    }
  }

  /** The CLI knows the request no more and never reported a reply: its tool must have ended, or nothing will end it. */
  async function withdraw(entry: Open, deadlineMs: number, detail: string): Promise<void> {
    const { call } = entry;
    while (call !== null && options.isAtWork(entry.request.session, call)) {
      if (clock.monotonicMs() >= deadlineMs) {
        return finish(entry, "unresolved", `${detail}, and the tool is still at work`);
      }
      await wait(RETRY_WAIT_MS, entry);
      if (isClosed) return;
      if (entry.isConfirmed) return finish(entry, "confirmed", "replied event");
    }
    finish(entry, "closed_by_end", `withdrawn by the CLI: ${detail}`);
  }

  async function serve(entry: Open): Promise<void> {
    const deadlineMs = clock.monotonicMs() + options.limitMs;
    let problem = "no try was made";
    for (let tries = 1; tries <= TRIES && !isClosed; tries += 1) {
      const leftMs = deadlineMs - clock.monotonicMs();
      if (leftMs <= 0) break;
      const result = await tryReply(entry, Math.min(leftMs, options.limitMs / TRIES));
      if (isClosed) return;
      if (result.kind === "done") return finish(entry, "confirmed", result.detail);
      if (result.kind === "gone") return withdraw(entry, deadlineMs, result.detail);
      problem = result.detail;
      await wait(RETRY_WAIT_MS, entry);
      if (entry.isConfirmed) return finish(entry, "confirmed", "replied event");
    }
    if (!isClosed) finish(entry, "unresolved", problem);
  }

  async function take(request: PermissionRequest, call: string | null): Promise<void> {
    if (!(await options.isOurs(request.session)) || isClosed) return;
    const entry: Open = {
      request,
      call,
      reply: options.policy === "allow" ? "once" : "reject",
      isConfirmed: false,
      wake: () => undefined,
    };
    const key = keyOf(request.session, request.request);
    open.set(key, entry);
    options.onObservation({ kind: "permission_asked", request });
    if (repliedEarly.has(key)) finish(entry, "confirmed", "replied event");
    else await serve(entry);
  }

  return {
    asked({ id, session, permission, patterns, call }) {
      const key = keyOf(session, id);
      if (isClosed || seen.has(key)) return;
      seen.add(key);
      if (seen.size > REQUESTS)
        return options.onUnresolved(`more than ${REQUESTS} permission requests in one turn`);
      if (!NativeId.safeParse(id).success || !NativeId.safeParse(session).success) {
        return options.onUnresolved("a permission request has an unusable id");
      }
      const request: PermissionRequest = {
        request: id,
        session,
        permission: permission.slice(0, 128),
        patterns: patterns.slice(0, 64).map((pattern) => pattern.slice(0, 2000)),
      };
      take(request, call).catch((error: unknown) => {
        const detail = error instanceof HoldfastError ? error.message : String(error);
        options.onUnresolved(`a permission request could not be handled: ${detail}`);
      });
    },
    replied(session, request) {
      const key = keyOf(session, request);
      const entry = open.get(key);
      if (entry === undefined) {
        if (seen.has(key)) repliedEarly.add(key);
        return;
      }
      entry.isConfirmed = true;
      entry.wake();
    },
    pending: () => open.size,
    close() {
      if (isClosed) return;
      isClosed = true;
      for (const entry of [...open.values()]) {
        // The end may come in the same read as the reply's own event: a rejection ends the turn at once.
        if (entry.isConfirmed) finish(entry, "confirmed", "replied event");
        else finish(entry, "closed_by_end", "the turn ended");
      }
    },
  };
}
