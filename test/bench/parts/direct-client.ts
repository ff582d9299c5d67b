// The baseline's client of `opencode serve`, in the same kind of place as the CLI: starts the server, opens its event
// stream, sends prompts and waits for the session's idle. No journal, no gate, no proofs. One file that needs node alone,
// so that it runs in the sandbox image in the bridge's place.
//   node direct-client.ts CONFIG.json     (see DirectConfig; prompts come as lines on the control socket)
import { spawn } from "node:child_process";
import { chownSync, mkdirSync, readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { type AddressInfo, connect, createServer } from "node:net";
import { createInterface } from "node:readline";

export interface DirectConfig {
  controlSocket: string;
  modelSocket: string;
  command: string[];
  workspace: string;
  /** Made here, owner-only, before the server starts. */
  directories: string[];
  /** Null: the server runs as this process's user. */
  user: { uid: number; gid: number } | null;
  /** `@INLET@` in a value becomes the model's address on loopback. */
  environment: Record<string, string>;
  userName: string;
  password: string;
  provider: string;
  model: string;
}

/** To the controller's side, one JSON object a line. */
export type DirectWord =
  | { kind: "ready"; startMs: number }
  | { kind: "turn"; ms: number; text: string; replyMs: number[] }
  | { kind: "failed"; why: string };

async function main(config: DirectConfig): Promise<void> {
  const beganMs = performance.now();
  const control = connect(config.controlSocket);
  const say = (word: DirectWord) => control.write(`${JSON.stringify(word)}\n`);
  control.once("close", () => process.exit(0));
  const inlet = await openInlet(config.modelSocket);
  const port = await startServer(config, inlet);
  const call = caller(port, config);
  const { id } = (await call("POST", `/session?directory=${encodeURIComponent(config.workspace)}`, {
    title: "bench",
  })) as { id: string };
  const events = await subscribe(port, config, (request) =>
    call("POST", `/permission/${request}/reply`, { reply: "once" }),
  );
  say({ kind: "ready", startMs: performance.now() - beganMs });
  for await (const prompt of createInterface({ input: control })) {
    const sentMs = performance.now();
    const ended = events.turnOf(id);
    await call("POST", `/session/${id}/prompt_async`, {
      model: { providerID: config.provider, modelID: config.model },
      parts: [{ type: "text", text: JSON.parse(prompt) as string }],
    });
    const { text, replyMs } = await ended;
    say({ kind: "turn", ms: performance.now() - sentMs, text, replyMs });
  }
}

/** A port on loopback, piped to the host's model socket, as the bridge has one. */
async function openInlet(modelSocket: string): Promise<string> {
  const server = createServer((near) => {
    const far = connect(modelSocket);
    near.pipe(far).pipe(near);
    near.on("error", () => far.destroy());
    far.on("error", () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function startServer(config: DirectConfig, inlet: string): Promise<number> {
  const { user } = config;
  for (const path of config.directories) mkdirSync(path, { recursive: true, mode: 0o700 });
  // The outermost last: after its chown a root without DAC capabilities can't go in any more.
  if (user !== null) for (const path of config.directories.toReversed()) chownSync(path, user.uid, user.gid);
  const [file = "", ...args] = config.command;
  const child = spawn(file, args, {
    cwd: config.workspace,
    env: {
      ...Object.fromEntries(
        Object.entries(config.environment).map(([name, value]) => [name, value.replaceAll("@INLET@", inlet)]),
      ),
      PATH: process.env.PATH,
    },
    stdio: ["ignore", "pipe", "inherit"],
    ...(user === null ? {} : user),
  });
  process.once("exit", () => child.kill("SIGKILL"));
  process.once("SIGTERM", () => process.exit(0));
  child.once("exit", (code) => {
    throw new Error(`the server ended with ${code}`);
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const port = line.match(/listening on http:\/\/127\.0\.0\.1:(\d+)/)?.[1];
    if (port !== undefined) {
      child.stdout.resume();
      return Number(port);
    }
  }
  throw new Error("the server said no address");
}

function authorization({ userName, password }: DirectConfig): string {
  return `Basic ${Buffer.from(`${userName}:${password}`).toString("base64")}`;
}

function caller(port: number, config: DirectConfig) {
  return async (method: string, path: string, body: unknown): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers: { authorization: authorization(config), "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(20_000),
    });
    if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}`);
    const text = await answer.text();
    return text === "" ? null : JSON.parse(text);
  };
}

interface NativeEvent {
  type: string;
  properties: { id?: string; requestID?: string; sessionID?: string; field?: string; delta?: string };
}

async function subscribe(port: number, config: DirectConfig, allow: (request: string) => Promise<unknown>) {
  let take: (event: NativeEvent) => void = () => undefined;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const path = `/event?directory=${encodeURIComponent(config.workspace)}`;
    const headers = { authorization: authorization(config) };
    request({ host: "127.0.0.1", port, path, headers, agent: false }, resolve).once("error", reject).end();
  });
  const connected = new Promise<void>((resolve) => {
    take = ({ type }) => {
      if (type === "server.connected") resolve();
    };
  });
  const lines = createInterface({ input: response });
  lines.on("line", (line) => {
    if (line.startsWith("data: ")) take(JSON.parse(line.slice(6)) as NativeEvent);
  });
  await connected;
  return {
    /** The text of the session's next turn, at its idle; every permission is allowed at once, whoever asks. */
    turnOf: (session: string) =>
      new Promise<{ text: string; replyMs: number[] }>((resolve, reject) => {
        let text = "";
        const asked = new Map<string, number>();
        const replyMs: number[] = [];
        take = ({ type, properties }) => {
          if (type === "permission.asked" && properties.id !== undefined) {
            asked.set(properties.id, performance.now());
            allow(properties.id).catch(reject);
          }
          if (type === "permission.replied") {
            replyMs.push(performance.now() - (asked.get(properties.requestID ?? "") ?? Number.NaN));
          }
          if (properties.sessionID !== session) return;
          if (type === "message.part.delta" && properties.field === "text") text += properties.delta ?? "";
          if (type === "session.idle") resolve({ text, replyMs });
        };
      }),
  };
}

if (import.meta.main) {
  const config = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as DirectConfig;
  main(config).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    process.exit(1);
  });
}
