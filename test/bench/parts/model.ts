// The loopback model as a process of its own for the benches: one scripted reply for every turn, over TCP (the way of
// Holdfast's relay) and, with no key asked for, piped from a Unix socket (the way of the direct client).
//   node model.ts SOCKET
import { chmodSync } from "node:fs";
import { connect, createServer } from "node:net";
import { startModelServer } from "../../support/model/server.ts";

/** What the model answers, always. In words of one chunk each. */
export const REPLY = Array.from({ length: 40 }, (_, at) => `word${at}`).join(" ");

if (import.meta.main) {
  const model = await startModelServer();
  model.setDefault([{ kind: "reply", text: REPLY }]);
  const port = Number(new URL(model.url).port);
  const pipe = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    near.pipe(far).pipe(near);
    near.on("error", () => far.destroy());
    far.on("error", () => near.destroy());
  });
  const path = process.argv[2] ?? "";
  pipe.listen(path, () => {
    chmodSync(path, 0o600);
    process.stdout.write(`${model.url}\n`);
  });
}
