// A TCP relay in front of the stand-in: it can stop forwarding with every socket open, and hand on a byte at a time.
import { connect, type Socket } from "node:net";
import { tcpServer } from "./local-server.ts";

export interface Relay {
  readonly port: number;
  /** Nothing is forwarded any more, in either direction, and nothing is closed. */
  freeze(): void;
  thaw(): void;
}

/** @param target the port behind it, asked for at each connection */
export async function openRelay(target: () => Promise<number>, byByte = false): Promise<Relay> {
  const ends = new Set<Socket>();
  let isFrozen = false;

  function forward(from: Socket, to: Socket): void {
    ends.add(from);
    from.on("data", (bytes: Buffer) => {
      if (!byByte) to.write(bytes);
      else for (const byte of bytes) to.write(Buffer.from([byte]));
    });
    from.once("close", () => {
      ends.delete(from);
      if (!isFrozen) to.destroy();
    });
    from.on("error", () => undefined);
    if (isFrozen) from.pause();
  }

  const port = await tcpServer((near) => {
    near.pause();
    target().then(
      (behind) => {
        const far = connect({ host: "127.0.0.1", port: behind });
        forward(near, far);
        forward(far, near);
        if (!isFrozen) near.resume();
      },
      () => near.destroy(),
    );
  });
  return {
    port,
    freeze() {
      isFrozen = true;
      for (const end of ends) end.pause();
    },
    thaw() {
      isFrozen = false;
      for (const end of ends) end.resume();
    },
  };
}
