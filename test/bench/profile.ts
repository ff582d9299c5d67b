// A CPU profile of this very process, for `--profile`; the bridge takes its own.
import { mkdir, writeFile } from "node:fs/promises";
import { Session } from "node:inspector/promises";
import { join } from "node:path";

export async function profileHere(
  directory: string | null,
  name: string,
): Promise<{ stop(): Promise<void> }> {
  if (directory === null) return { stop: async () => undefined };
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.start");
  return {
    async stop() {
      const { profile } = await session.post("Profiler.stop");
      session.disconnect();
      await mkdir(directory, { recursive: true });
      await writeFile(join(directory, `${name}.cpuprofile`), JSON.stringify(profile));
    },
  };
}
