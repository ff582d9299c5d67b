/**
 * Stands between a bridge and the controller's socket, and does to their connections what a test says. It takes the
 * socket's path and passes everything on to the controller's own file, so that each new connection goes through it.
 */
import { renameSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Passed on; thrown away as it comes; or not read, so that the sender's buffers fill. */
type WireMode = "pass" | "drop" | "hold";

export interface Wire {
  toController: WireMode;
  toBridge: WireMode;
  /** Bytes that were thrown away, by where they were to go. */
  readonly dropped: { toController: number; toBridge: number };
  /** Connections that one side ended while the wire was there to see it. */
  readonly ended: { byBridge: number; byController: number };
  /** Connections that were made. */
  readonly made: number;
  /** Ends every connection, for both sides at once; also those in which bytes were thrown away. */
  cut(): void;
  /** Lets go of the path: the next controller's socket is dialled as it is. */
  leave(): void;
}

const HELD_POLL_MS = 5;

/** The controller listens on `path` already. */
export async function wireInto(path: string): Promise<Wire> {
  const own = `${path}.own`;
  renameSync(path, own);
  const pairs = new Set<{ near: Socket; far: Socket }>();
  let made = 0;
  const wire = {
    toController: "pass" as WireMode,
    toBridge: "pass" as WireMode,
    dropped: { toController: 0, toBridge: 0 },
    ended: { byBridge: 0, byController: 0 },
    get made() {
      return made;
    },
    cut() {
      for (const { near, far } of pairs) {
        near.destroy();
        far.destroy();
      }
      pairs.clear();
    },
    leave() {
      wire.cut();
      server.close();
      rmSync(own, { force: true });
    },
  };

  function carry(from: Socket, to: Socket, way: "toController" | "toBridge"): void {
    from.on("data", (bytes: Buffer) => {
      if (wire[way] === "drop") wire.dropped[way] += bytes.length;
      else if (!to.write(bytes)) from.pause();
      hold();
    });
    to.on("drain", () => from.resume());

    function hold(): void {
      if (wire[way] !== "hold" || from.destroyed) return;
      from.pause();
      const timer = setInterval(() => {
        if (wire[way] === "hold" && !from.destroyed) return;
        clearInterval(timer);
        from.resume();
      }, HELD_POLL_MS);
    }
  }

  const server = createServer((near) => {
    made += 1;
    const far = connect(own);
    const pair = { near, far };
    pairs.add(pair);
    carry(near, far, "toController");
    carry(far, near, "toBridge");
    for (const [one, other, way, who] of [
      [near, far, "toController", "byBridge"],
      [far, near, "toBridge", "byController"],
    ] as const) {
      one.on("error", () => undefined);
      one.once("close", () => {
        if (!pairs.has(pair)) return;
        wire.ended[who] += 1;
        // An end is a packet like any other.
        if (wire[way] === "drop") return;
        pairs.delete(pair);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  onTestFinished(() => wire.leave());
  return wire;
}
