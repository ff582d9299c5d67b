/** What a sandbox's container lets its agent do and see, looked at from inside by the agent's own tool (laws 12, 14, 15). */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createMember, MODEL_KEY, startTestHost, type TestHost } from "../support/host.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { inspectContainer, present, processesIn, processIn, procFile, textsInFileSystem } from "./engine.ts";

let t: TestHost;
let end: () => Promise<void> = async () => undefined;
let container = "";
let member = "";
let sandbox = "";
/** Of the sandbox's first slot: other sandboxes of this engine have others. */
let uid = 0;

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  ({ sandbox, member } = createMember(t.host, "docker"));
  await play(t, member, "The code word is urchin.");
  container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  uid = Number((await present(container)).Config.Labels?.["dev.holdfast.first-uid"]);
});
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

/** What the agent's shell prints for the command: read from the request in which the CLI sends it to the model. */
async function inside(command: string): Promise<string> {
  const call = { name: "bash", arguments: { command, description: "a probe" } };
  t.model.script("Probe the sandbox", [{ kind: "reply", toolCalls: [call] }, "Probed."]);
  const { settlement } = await play(t, member, "Probe the sandbox.");
  expect(settlement).toMatchObject({ outcome: "completed", settled: true });
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  return rows.findLast(({ role }) => role === "tool")?.text ?? "";
}

test("design 7: the agent is an own user with no capability, no new privileges, no network but loopback", async () => {
  const printed = await inside(
    [
      'echo "uid=$(id -u) gid=$(id -g) groups=$(id -G)"',
      'echo "net=$(ls /sys/class/net | tr "\\n" " ")"',
      "grep -E '^(CapEff|CapPrm|CapInh|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status",
      "(exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null && echo reached=outside",
      "echo end",
    ].join("; "),
  );
  expect(printed).toContain(`uid=${uid} gid=20000 groups=20000`);
  expect(printed).toContain("net=lo ");
  for (const set of ["CapEff", "CapPrm", "CapInh"]) expect(printed).toMatch(new RegExp(`${set}:\\s+0+\\n`));
  // The bridge's four (CHOWN, KILL, SETGID, SETUID) bound what a set-uid program could ever give; nothing gives it.
  expect(printed).toMatch(/CapBnd:\s+0{8}0{6}e1\n/);
  expect(printed).toMatch(/NoNewPrivs:\s+1\n/);
  expect(printed).toMatch(/Seccomp:\s+2\n/);
  expect(printed).not.toContain("reached=");
  expect(printed).toContain("end");
});

test("law 14: the agent can read neither the bridge's journal, token and environment nor its own server's", async () => {
  const printed = await inside(
    [
      "for f in /var/lib/holdfast/journal /run/holdfast/token /run/holdfast/bridge.json /run/holdfast/ctl.sock",
      '/proc/1/environ /proc/$PPID/environ; do cat "$f" >/dev/null 2>&1 && echo "open $f" || echo "closed $f"; done',
      "; ls /var/lib/holdfast /run/holdfast >/dev/null 2>&1 && echo 'open folder'",
      '; for p in /proc/[0-9]*; do if [ "$(stat -c %u "$p" 2>/dev/null)" = 0 ]; then echo "root $p";',
      'cat "$p/environ" >/dev/null 2>&1 && echo "open $p"; ls "$p/fd" >/dev/null 2>&1 && echo "open $p/fd"; fi; done',
      "; for f in /opt/holdfast/bridge.cjs /opt/holdfast/node /opt/holdfast/manifest.json /usr/bin/tini",
      '; do test -w "$f" && echo "open $f"; done; kill -9 1 2>/dev/null && echo "open kill"; echo end',
    ].join(" "),
  );
  expect(printed.match(/^closed .*$/gm)).toHaveLength(6);
  // tini and the bridge.
  expect(printed.match(/^root \/proc\/\d+$/gm)).toHaveLength(2);
  expect(printed).not.toContain("open ");
  expect(printed).toContain("end");
});

test("design 4, 7: only the CLI's processes are of the slot's user; the bridge is root with its four capabilities", async () => {
  const all = await processesIn(container);
  const bridge = all.filter(({ command }) => command.includes("bridge.cjs"));
  expect(bridge.map(({ uid }) => uid)).toEqual([0, 0]);
  expect((await processIn(container, (command) => command.includes("opencode serve"))).uid).toBe(uid);
  expect(all.filter(({ uid: own }) => own !== 0 && own !== uid)).toEqual([]);
  const found = await inspectContainer(container);
  expect(found?.HostConfig).toMatchObject({
    NetworkMode: "none",
    CapDrop: ["ALL"],
    CapAdd: expect.toSatisfy((added: string[]) => added.length === 4),
    Privileged: false,
    PidsLimit: 1024,
    Memory: 4 * 1024 ** 3,
    RestartPolicy: { Name: "no" },
    SecurityOpt: ["no-new-privileges"],
  });
});

test("law 14: the provider's key, the link's token and the server's password are nowhere that they should not be", async () => {
  const directory = t.host.store.sandbox(sandbox)?.directory ?? "";
  const token = readFileSync(join(directory, "token"), "utf8").trim();
  const server = await processIn(container, (command) => command.includes("opencode serve"));
  const password = /OPENCODE_SERVER_PASSWORD=([^\0]+)/.exec(procFile(server.pid, "environ"))?.[1] ?? "";
  expect([token.length, password.length].every((length) => length > 20)).toBe(true);
  const secrets = [MODEL_KEY, token, password];

  // The key was really used: every request carried it.
  await play(t, member, "One more word.");
  expect(t.model.requests().map(({ fault }) => fault)).toEqual([null]);

  const places: Record<string, string> = {
    inspect: JSON.stringify(await inspectContainer(container)),
    "the bridge's log": await logOf(),
  };
  for (const { pid, command } of await processesIn(container)) {
    places[`argv of ${command}`] = procFile(pid, "cmdline");
    // The password is the server's own and its tools'; nobody else's.
    const environment = procFile(pid, "environ");
    places[`environment of ${command}`] =
      pid === server.pid ? environment.replace(password, "") : environment;
  }
  for (const name of readdirSync(t.directory)) {
    if (name.startsWith("holdfast.db")) places[name] = readFileSync(join(t.directory, name), "latin1");
  }
  places["bridge.json"] = readFileSync(join(directory, "bridge.json"), "utf8");
  const found = Object.entries(places).flatMap(([place, text]) =>
    secrets.flatMap((secret, at) => (text.includes(secret) ? [`secret ${at} in ${place}`] : [])),
  );
  expect(found).toEqual([]);
  // The code word shows that the scan does see what is there.
  expect(await textsInFileSystem(container, [...secrets, "urchin"])).toEqual(["urchin"]);
});

async function logOf(): Promise<string> {
  const driver = t.setup.drivers.find(({ kind }) => kind === "docker");
  const { generation, directory } = t.host.store.sandbox(sandbox) ?? { generation: 1, directory: "" };
  const spec = { storeId: t.host.store.id, sandboxId: sandbox, generation, directory };
  const text = (await driver?.logTail(spec, container)) ?? "";
  expect(text).toContain("bridge ready");
  return text;
}
