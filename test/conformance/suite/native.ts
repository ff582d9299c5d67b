/** A member's CLI as its own server shows it: asked directly, past the bridge, with the password of its process. */
import { RELAY } from "../server-relay.ts";
import { environmentOf, listeningPort, processesOf } from "./processes.ts";
import { type DriverSubject, required } from "./subject.ts";

export interface NativeServer {
  readonly pid: number;
  readonly port: number;
  /** The parsed answer; throws for a status that is no success. */
  ask<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T>;
}

/** The server of a member that has a resident process, for the workspace's instance. */
export async function nativeServer(
  { server, processText }: DriverSubject,
  place: { sandbox: string; member: string; workspace: string },
): Promise<NativeServer> {
  const { userName, passwordVariable } = required(server);
  const found = await processesOf(place.sandbox, place.member, processText);
  // A relay in front of it has its command in its own command line.
  const relays = (await processesOf(place.sandbox, place.member, RELAY)).map(({ pid }) => pid);
  const [pid, ...more] = found.map((each) => each.pid).filter((each) => !relays.includes(each));
  if (pid === undefined || more.length > 0) throw new Error(`${found.length} servers`);
  const port = listeningPort(pid);
  const key = Buffer.from(`${userName}:${environmentOf(pid, passwordVariable)}`).toString("base64");
  return {
    pid,
    port,
    async ask<T>(method: "GET" | "POST", path: string, body?: unknown) {
      const url = `http://127.0.0.1:${port}${path}?directory=${encodeURIComponent(place.workspace)}`;
      const answer = await fetch(url, {
        method,
        headers: { authorization: `Basic ${key}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text.slice(0, 300)}`);
      return (text === "" ? null : JSON.parse(text)) as T;
    },
  };
}
