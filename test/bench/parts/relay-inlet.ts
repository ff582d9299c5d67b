// The sandbox's side of a hop, as a program of its own: the bridge's own inlet, and nothing else of the bridge.
import { openInlet } from "../../../bridge/inlet.ts";

const inlet = await openInlet(process.argv[2] ?? "", {
  info: () => undefined,
  warn: (what, fields) => process.stderr.write(`${what} ${JSON.stringify(fields)}\n`),
});
process.stdout.write(`${inlet.url}/v1\n`);
