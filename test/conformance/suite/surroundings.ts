/** What surrounds a CLI: proxies in the environment, names of the loopback, strangers on ports. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { play } from "../../support/turns.ts";
import { nativeServer } from "./native.ts";
import { bridgeOf, environmentOf, listeningAddresses, processesOf } from "./processes.ts";
import { type DriverSubject, type Stage, settled } from "./subject.ts";

/** Nothing listens there. */
const DEAD = "http://127.0.0.1:9";
export const DEAD_PROXIES = Object.fromEntries(
  ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [
    [name, DEAD],
    [name.toLowerCase(), DEAD],
  ]),
);

/** The port that both CLIs take when they are told none, and may try first. */
const USUAL_PORT = 4096;

export function surroundingTests(stage: () => Stage, subject: DriverSubject): void {
  const ofServer = test.skipIf(subject.server === null);

  // First of all, while no server of ours has the port.
  ofServer("P40: a stranger who answers 200 to everything on the usual port is not asked once", async () => {
    const { t, steady } = stage();
    const asked: string[] = [];
    const stranger = createServer((request, response) => {
      asked.push(request.url ?? "");
      response.end("<html>hello</html>");
    });
    // Somebody else's is as good a stranger, though it tells us nothing.
    stranger.on("error", () => undefined);
    stranger.listen(USUAL_PORT, "127.0.0.1");
    onTestFinished(() => void stranger.close());
    const { settlement } = await play(t, steady(), "Who is there?");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true });
    expect(asked).toEqual([]);
  });

  test("P38: dead proxies stand in no way, neither to the CLI's server nor to the model, and the CLI has them for the outside", async () => {
    const { t, steady, directory, sandbox } = stage();
    const member = steady();
    const { settlement } = await play(t, member, "Is there a way?");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true });
    const bridge = bridgeOf(directory);
    for (const [name, value] of Object.entries(DEAD_PROXIES)) expect(environmentOf(bridge, name)).toBe(value);
    expect(environmentOf(bridge, "NO_PROXY")).toBe("");
    const [native] = await processesOf(sandbox, member, subject.processText);
    for (const [name, value] of Object.entries({ ...DEAD_PROXIES, NO_PROXY: "127.0.0.1,localhost" }))
      expect(environmentOf(native?.pid ?? 0, name)).toBe(value);
  });

  ofServer(
    "P39: server and model are reached by the literal 127.0.0.1, whatever the hosts file says",
    async () => {
      const { steady, sandbox, workspace } = stage();
      const member = await settled(stage(), steady());
      const native = await nativeServer(subject, { sandbox, member, workspace });
      expect(listeningAddresses(native.pid)).toEqual(["0100007F"]);
      const environment = readFileSync(`/proc/${native.pid}/environ`, "utf8");
      expect(environment).toMatch(/"baseURL":"http:\/\/127\.0\.0\.1:\d+\/v1"/);
      expect(environment).not.toContain("http://localhost");
    },
  );
}
