// The HTTP side: the calls that a bridge makes, each answered as the script wants.
import type { IncomingMessage, ServerResponse } from "node:http";
import { createHeld, replyNetwork, replyPermission, replyQuestion } from "./asks.ts";
import { abortRun, createRun, type Run } from "./run.ts";
import { next, type Step, type StreamFault, type TurnPlan } from "./script.ts";
import { addUser, playTurn } from "./steps.ts";
import type { Pending, World } from "./world.ts";

export type Route = (call: Call) => void;

export interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  url: URL;
  body: Record<string, unknown>;
  /** The parts of the path that were named. */
  id: string;
}

interface PromptBody {
  messageID: string;
  parts: Array<{ type: string; text: string; id: string }>;
}

export function createRoutes(world: World, stop: (code: number) => void): Array<[string, RegExp, Route]> {
  const { script, bus } = world;
  const runs = new Map<string, Run>();
  const later = new Map<string, Step[]>();
  const held = createHeld();
  let turns = 0;

  const directoryOf = ({ url }: Call) => url.searchParams.get("directory") ?? process.cwd();
  const stateless =
    (status: number | undefined, route: Route): Route =>
    (call) =>
      status === undefined ? route(call) : json(call, status, { name: "UnknownError" });

  function health(call: Call): void {
    const plan = next(script.health, "ok" as const);
    if (plan === "hang") return;
    if (plan === "refuse") return void call.request.socket.resetAndDestroy();
    if (plan === "html") return page(call);
    if (typeof plan === "number") return json(call, plan, {});
    json(call, 200, { healthy: true, version: script.version ?? (world.isKilo ? "7.7.7" : "1.18.33") });
  }

  function prompt(call: Call): void {
    const session = world.sessions.get(call.id);
    if (session === undefined) return json(call, 404, { name: "NotFoundError" });
    const plan: TurnPlan = script.turns?.[turns] ?? { steps: [{ text: "Hello there friend" }] };
    turns += 1;
    const { answer = 204, steps } = plan;
    if (typeof answer === "number" && answer >= 400) return json(call, answer, { name: "BadRequest" });
    if (answer === "refuse-cut") return void call.request.socket.resetAndDestroy();
    if (answer === 204) call.response.writeHead(204).end();
    if (answer === "cut") call.request.socket.resetAndDestroy();
    setImmediate(() => {
      take(session.id, call.body as unknown as PromptBody, steps).then(() => {
        if (answer === "late") call.response.writeHead(204).end();
      }, fatal);
      if (answer === "late") setImmediate(() => call.response.writeHead(204).end());
    });
  }

  async function take(session: string, body: PromptBody, steps: Step[]): Promise<void> {
    const [first] = steps;
    if (first !== undefined && "nothing" in first) return;
    if (first !== undefined && "onlyError" in first) {
      world.status.set(session, { type: "busy" });
      const error = { name: first.onlyError, data: { message: first.message } };
      return world.emit(session, "session.error", { error });
    }
    const user = addUser(world, session, body.messageID, body.parts);
    const busy = runs.get(session);
    // Kilo queues what comes while it is busy, and goes on to it after the step.
    if (world.isKilo && busy !== undefined) {
      busy.queued.push(user);
      later.set(user, steps);
      return world.emit(session, "session.queue.changed", { queued: busy.queued });
    }
    await play(session, user, steps);
  }

  async function play(session: string, user: string, steps: Step[]): Promise<void> {
    const run = createRun(session, user);
    runs.set(session, run);
    const result = await playTurn(world, run, steps, held);
    runs.delete(session);
    const [queued] = run.queued;
    if (result !== "superseded" || queued === undefined) return;
    world.emit(session, "session.queue.changed", { queued: [] });
    await play(session, queued, later.get(queued) ?? []);
  }

  function abort(call: Call): void {
    const plan = script.abort ?? "ordinary";
    if (plan === "silent") return;
    if (typeof plan === "number") return json(call, plan, {});
    if (plan === "nothing") return json(call, 200, true);
    const run = runs.get(call.id);
    runs.delete(call.id);
    if (run === undefined) world.idle(call.id);
    else abortRun(world, run);
    if (plan !== "repeat") return json(call, 200, true);
    // P17: the idle was ahead of the answer, and comes once more after it.
    setTimeout(() => {
      json(call, 200, true);
      setTimeout(() => world.idle(call.id), 20);
    }, 20);
  }

  /** A reply to what is pending, answered as its plan says. */
  function replied(
    call: Call,
    list: Map<string, Pending>,
    tag: string,
    effect: (pending: Pending) => void,
  ): void {
    const pending = list.get(call.id);
    if (pending === undefined) return json(call, 404, { _tag: tag });
    const plan = next(pending.replies, "ok");
    if (plan === "silent") return;
    if (plan === "lie") return json(call, 200, true);
    if (typeof plan === "number") return json(call, plan, {});
    if (plan === "forget") {
      list.delete(pending.id);
      return json(call, 404, { _tag: tag });
    }
    json(call, plan === "ok" ? 200 : 500, true);
    effect(pending);
  }

  const answered = (call: Call, answers: string[][] | null) =>
    replied(call, world.questions, "QuestionNotFoundError", (pending) =>
      replyQuestion(world, pending, answers),
    );
  const networked = (call: Call, reply: "reply" | "reject") =>
    replied(call, world.network, "NetworkNotFoundError", (pending) => replyNetwork(world, pending, reply));
  const listed =
    (list: Map<string, Pending>): Route =>
    (call) => {
      if (script.pendingStatus !== undefined) return json(call, script.pendingStatus, {});
      json(
        call,
        200,
        [...list.values()].map(({ raw }) => raw),
      );
    };

  function canary(call: Call): void {
    const plan = next(script.canaries, "ok" as const);
    if (plan === "refuse") return json(call, 500, {});
    if (plan === "ok")
      bus.emit(directoryOf(call), call.body as { type: string; properties: Record<string, unknown> });
    else if (plan !== "swallow") bus.fault(directoryOf(call), plan);
    json(call, 200, true);
  }

  /** The test's own hand: says an event, breaks a stream, lets a held turn go on, or ends the process. */
  function command(call: Call): void {
    const { emit, stream, go, exit, status, directory } = call.body as {
      emit?: { type: string; properties: Record<string, unknown> };
      stream?: StreamFault;
      go?: boolean;
      exit?: number;
      /** What a session does by itself: busy, or idle again. */
      status?: { session: string; type: string };
      directory: string;
    };
    if (emit !== undefined) bus.emit(directory, emit);
    if (stream !== undefined) bus.fault(directory, stream);
    if (go === true) held.go();
    if (status?.type === "idle") world.idle(status.session);
    else if (status !== undefined) world.setStatus(status.session, { type: status.type });
    json(call, 200, true);
    if (exit !== undefined) stop(exit);
  }

  const lookUp: Route = (call) => {
    const hidden = world.hidden.get(call.id) ?? 0;
    world.hidden.set(call.id, hidden - 1);
    const found = hidden > 0 ? undefined : world.sessions.get(call.id);
    if (found === undefined) return json(call, 404, { name: "NotFoundError" });
    json(call, 200, { id: found.id, directory: found.directory, parentID: found.parentID, title: "explore" });
  };

  return [
    ["GET", /^\/global\/health$/, health],
    ["GET", /^\/event$/, (call) => bus.subscribe(call.response, directoryOf(call))],
    ["POST", /^\/tui\/publish$/, canary],
    ["POST", /^\/session$/, (call) => json(call, 200, world.create(directoryOf(call)))],
    [
      "GET",
      /^\/session\/status$/,
      stateless(script.listStatus, (call) => json(call, 200, Object.fromEntries(world.status))),
    ],
    ["GET", /^\/session\/([^/]+)$/, stateless(script.sessionStatus, lookUp)],
    [
      "GET",
      /^\/session\/([^/]+)\/message$/,
      stateless(script.messageStatus, (call) => {
        const found = world.sessions.get(call.id);
        if (found === undefined) return json(call, 404, { name: "NotFoundError" });
        json(call, 200, found.messages.slice(-Number(call.url.searchParams.get("limit") ?? 0)));
      }),
    ],
    ["POST", /^\/session\/([^/]+)\/prompt_async$/, prompt],
    ["POST", /^\/session\/([^/]+)\/abort$/, abort],
    ["GET", /^\/permission$/, listed(world.permissions)],
    [
      "POST",
      /^\/permission\/([^/]+)\/reply$/,
      (call) =>
        replied(call, world.permissions, "PermissionNotFoundError", (pending) =>
          replyPermission(world, pending, String(call.body.reply)),
        ),
    ],
    ["GET", /^\/question$/, listed(world.questions)],
    ["POST", /^\/question\/([^/]+)\/reply$/, (call) => answered(call, call.body.answers as string[][])],
    ["POST", /^\/question\/([^/]+)\/reject$/, (call) => answered(call, null)],
    ["GET", /^\/network$/, listed(world.network)],
    ["POST", /^\/network\/([^/]+)\/reply$/, (call) => networked(call, "reply")],
    ["POST", /^\/network\/([^/]+)\/reject$/, (call) => networked(call, "reject")],
    ["POST", /^\/stand-in$/, command],
    // The real one answers any unknown path with a page and 200.
    ["GET", /^/, page],
  ];
}

export function json({ response }: Call, status: number, value: unknown): void {
  if (response.headersSent) return;
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function page({ response }: Call): void {
  response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>not the API</title>");
}

function fatal(error: unknown): void {
  process.stderr.write(`${String(error)}\n`);
  process.exit(70);
}
