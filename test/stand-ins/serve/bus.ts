// The event stream and what can go wrong with it.
import type { ServerResponse } from "node:http";
import type { Script, StreamFault } from "./script.ts";

export interface NativeEvent {
  type: string;
  properties?: Record<string, unknown>;
  /** Of a `sync`, in place of properties. */
  syncEvent?: unknown;
}

interface Subscriber {
  response: ServerResponse;
  directory: string;
  isAttached: boolean;
  isDeaf: boolean;
  isMute: boolean;
  stopBeat: () => void;
}

export interface Bus {
  subscribe(response: ServerResponse, directory: string): void;
  emit(directory: string, event: NativeEvent): void;
  fault(directory: string, fault: StreamFault): void;
}

export function createBus(options: NonNullable<Script["stream"]>): Bus {
  const subscribers = new Set<Subscriber>();
  let events = 0;

  const frame = (event: NativeEvent) => {
    events += 1;
    return `data: ${JSON.stringify({ id: `evt_${events}`, ...event })}\n\n`;
  };

  function write(to: Subscriber, text: string): void {
    if (to.isMute) return;
    if (options.byByte !== true) to.response.write(text);
    else for (const byte of Buffer.from(text)) to.response.write(Buffer.from([byte]));
  }

  function beat(to: Subscriber): void {
    if (options.heartbeat === "comment") write(to, ": heartbeat\n\n");
    else write(to, frame({ type: "server.heartbeat", properties: {} }));
  }

  return {
    subscribe(response, directory) {
      response.writeHead(200, { "content-type": "text/event-stream", "x-accel-buffering": "no" });
      const timer =
        options.heartbeat === "none" ? undefined : setInterval(() => beat(to), options.beatMs ?? 10_000);
      const to: Subscriber = {
        response,
        directory,
        isAttached: false,
        isDeaf: options.isElsewhere === true,
        isMute: false,
        stopBeat: () => clearInterval(timer),
      };
      write(to, frame({ type: "server.connected", properties: {} }));
      subscribers.add(to);
      const attach = () => {
        to.isAttached = true;
      };
      // P3: it says "connected" before it hands on anything.
      if (options.attachAfterMs === undefined) attach();
      else setTimeout(attach, options.attachAfterMs);
      response.once("close", () => {
        to.stopBeat();
        subscribers.delete(to);
      });
    },
    emit(directory, event) {
      for (const to of subscribers) {
        if (to.directory === directory && to.isAttached && !to.isDeaf) write(to, frame(event));
      }
    },
    fault(directory, fault) {
      for (const to of subscribers) {
        if (to.directory !== directory) continue;
        if (fault === "deaf") to.isDeaf = true;
        if (fault === "mute") to.isMute = true;
        if (fault === "dispose") {
          write(to, frame({ type: "server.instance.disposed", properties: { directory } }));
        }
        if (fault === "end" || fault === "dispose") to.response.end();
        if (fault === "reset") to.response.socket?.resetAndDestroy();
      }
    },
  };
}
