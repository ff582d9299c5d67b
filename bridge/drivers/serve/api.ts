/** The calls of the server's API that we use, each checked at the door. Facts: `opencode-kilo`, sections 3 to 8, 15. */
import * as z from "zod/mini";
import { HoldfastError } from "../../../protocol/errors.ts";
import type { QuestionAnswers } from "../../../protocol/question.ts";
import { PROVIDER } from "./launch-plan.ts";
import type { Answer, LoopbackServer } from "./loopback-http.ts";
import { NativeMessage, NativeQuestion } from "./native-event.ts";

const Session = z.object({
  id: z.string(),
  directory: z.string(),
  parentID: z.nullish(z.string()),
  title: z.optional(z.string()),
});
export type NativeSession = z.infer<typeof Session>;

const StoredMessage = z.object({ info: NativeMessage, parts: z.array(z.looseObject({ type: z.string() })) });
export type StoredMessage = z.infer<typeof StoredMessage>;

const Pending = z.looseObject({ id: z.string(), sessionID: z.string() });
const PendingPermission = z.object({
  id: z.string(),
  sessionID: z.string(),
  permission: z._default(z.string(), "?"),
  patterns: z._default(z.array(z.string()), []),
  tool: z.nullish(z.object({ callID: z.optional(z.string()) })),
});
export type PendingPermission = z.infer<typeof PendingPermission>;

export interface ServeApi {
  health(limitMs: number): Promise<string>;
  createSession(directory: string): Promise<NativeSession>;
  /** A new session with the whole history of another one, under new ids of its own. */
  forkSession(session: string, directory: string): Promise<NativeSession>;
  /** Null when the server says that there is none. */
  session(id: string): Promise<NativeSession | null>;
  /** Messages in the order of history; with `newest` only so many of the newest. Null when there is no such session. */
  messages(session: string, newest: number | null): Promise<StoredMessage[] | null>;
  prompt(
    session: string,
    prompt: { messageId: string; partId: string; text: string; model: string },
  ): Promise<Answer>;
  abort(session: string, limitMs: number): Promise<void>;
  /** Sessions of the directory that are not idle. */
  busySessions(directory: string): Promise<string[]>;
  /** Publishes a toast that comes back on the directory's event stream. */
  publishCanary(directory: string, nonce: string, limitMs: number): Promise<void>;
  replyPermission(request: string, reply: "once" | "reject", limitMs: number): Promise<Answer>;
  pendingPermissions(directory: string, limitMs: number): Promise<PendingPermission[]>;
  answerQuestion(request: string, answers: QuestionAnswers | null, limitMs: number): Promise<Answer>;
  pendingQuestions(directory: string, limitMs: number): Promise<NativeQuestion[]>;
  /** Kilo: try the provider again, or give up. */
  replyNetwork(request: string, reply: "retry" | "reject", limitMs: number): Promise<Answer>;
  pendingNetwork(directory: string, limitMs: number): Promise<Array<{ id: string; sessionID: string }>>;
}

export function serveApi(server: LoopbackServer, requestMs: number): ServeApi {
  const get = (path: string) => server.ask({ method: "GET", path, limitMs: requestMs });
  const post = (path: string, body: unknown, limitMs = requestMs) =>
    server.ask({ method: "POST", path, body, limitMs });
  // What is sent once: a kept socket may be closed by the server in the moment we use it, and its fate would be unclear.
  const once = (path: string, body: unknown, limitMs: number) =>
    server.ask({ method: "POST", path, body, limitMs, ownSocket: true });
  const at = (directory: string) => `directory=${encodeURIComponent(directory)}`;
  const id = encodeURIComponent;

  async function pending<T extends z.ZodMiniType>(
    path: string,
    schema: T,
    directory: string,
    limitMs: number,
  ): Promise<Array<z.infer<T>>> {
    const answer = await server.ask({ method: "GET", path: `${path}?${at(directory)}`, limitMs });
    return read(`GET ${path}`, answer, z.array(schema));
  }

  return {
    async health(limitMs) {
      const answer = await server.ask({ method: "GET", path: "/global/health", limitMs, ownSocket: true });
      return read("health", answer, z.object({ healthy: z.literal(true), version: z.string() })).version;
    },
    async createSession(directory) {
      // A given title keeps the CLI from asking the model for one: one request less, and none that is not the user's.
      return read("POST /session", await post(`/session?${at(directory)}`, { title: "holdfast" }), Session);
    },
    async forkSession(session, directory) {
      // Sent once: a second try would leave a session that nobody knows.
      const answer = await once(`/session/${id(session)}/fork?${at(directory)}`, {}, requestMs);
      return read("POST /session/:id/fork", answer, Session);
    },
    async session(session) {
      const answer = await get(`/session/${id(session)}`);
      return answer.status === 404 ? null : read("GET /session/:id", answer, Session);
    },
    async messages(session, newest) {
      const answer = await get(`/session/${id(session)}/message${newest === null ? "" : `?limit=${newest}`}`);
      return answer.status === 404 ? null : read("GET /session/:id/message", answer, z.array(StoredMessage));
    },
    prompt: (session, { messageId, partId, text, model }) =>
      once(
        `/session/${id(session)}/prompt_async`,
        {
          messageID: messageId,
          model: { providerID: PROVIDER, modelID: model },
          parts: [{ type: "text", id: partId, text }],
        },
        requestMs,
      ),
    async abort(session, limitMs) {
      accept("POST /session/:id/abort", await once(`/session/${id(session)}/abort`, {}, limitMs));
    },
    async busySessions(directory) {
      const answer = await get(`/session/status?${at(directory)}`);
      const status = read(
        "GET /session/status",
        answer,
        z.record(z.string(), z.looseObject({ type: z.string() })),
      );
      return Object.entries(status).flatMap(([session, { type }]) => (type === "idle" ? [] : [session]));
    },
    async publishCanary(directory, nonce, limitMs) {
      const toast = { type: "tui.toast.show", properties: { message: nonce, variant: "info" } };
      accept("POST /tui/publish", await post(`/tui/publish?${at(directory)}`, toast, limitMs));
    },
    replyPermission: (request, reply, limitMs) =>
      post(`/permission/${id(request)}/reply`, { reply }, limitMs),
    pendingPermissions: (directory, limitMs) => pending("/permission", PendingPermission, directory, limitMs),
    answerQuestion: (request, answers, limitMs) =>
      answers === null
        ? post(`/question/${id(request)}/reject`, {}, limitMs)
        : post(`/question/${id(request)}/reply`, { answers }, limitMs),
    pendingQuestions: (directory, limitMs) => pending("/question", NativeQuestion, directory, limitMs),
    replyNetwork: (request, reply, limitMs) =>
      post(`/network/${id(request)}/${reply === "retry" ? "reply" : "reject"}`, {}, limitMs),
    pendingNetwork: (directory, limitMs) => pending("/network", Pending, directory, limitMs),
  };
}

function accept(what: string, answer: Answer): void {
  if (answer.status >= 200 && answer.status < 300) return;
  throw new HoldfastError("CLI_NOT_READY", `${what} answered ${answer.status}`);
}

function read<T extends z.ZodMiniType>(what: string, answer: Answer, schema: T): z.infer<T> {
  accept(what, answer);
  const parsed = schema.safeParse(answer.json);
  if (parsed.success) return parsed.data;
  throw new HoldfastError("CLI_NOT_READY", `${what} answered something unexpected`);
}
