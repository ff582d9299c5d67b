/**
 * Slots in a real container: what a tool of one member can do to its neighbours and to the bridge, and what it sees of its
 * own CLI. A member of each CLI in the list, and one of the first CLI again, whose temporary files could be shared.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { DriverSubject } from "../conformance/suite/subject.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { everySubject } from "../support/subjects.ts";
import { play, tellOnFailure } from "../support/turns.ts";
import { type ContainerProcess, present, processesIn, procFile } from "./engine.ts";

interface Neighbour {
  member: string;
  subject: DriverSubject;
  uid: number;
  /** Its CLI's process, as the host numbers it, and as the container does. */
  pid: number;
  innerPid: number;
}

let t: TestHost;
let end: () => Promise<void> = async () => undefined;
let container = "";
const all: Neighbour[] = [];

const NAMES = [...everySubject().map(({ manifest }) => manifest.cli), "the first CLI again"];

beforeAll(async () => {
  t = await startTestHost({
    atEnd: (registered) => {
      end = registered;
    },
  });
  const sandbox = t.host.createSandbox({ kind: "docker" }).id;
  for (const subject of [...everySubject(), ...everySubject().slice(0, 1)]) {
    const { cli } = subject.manifest;
    const member = t.host.createMember({ sandbox, cli, ...MEMBER, ...subject.member }).id;
    const { settlement } = await play(t, member, "The code word is urchin.");
    expect(settlement).toMatchObject({ outcome: "completed", settled: true });
    container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
    const known = new Set(all.map(({ pid }) => pid));
    const [own, ...more] = (await processesIn(container)).filter(
      ({ pid, uid, command }) => uid !== 0 && command.includes(subject.processText) && !known.has(pid),
    );
    if (own === undefined || more.length > 0) throw new Error(`none or several processes of ${cli}`);
    all.push({ member, subject, uid: own.uid, pid: own.pid, innerPid: innerPidOf(own) });
  }
}, 240_000);
afterAll(() => end());
beforeEach(() => {
  t.model.reset();
  tellOnFailure(t);
});

function innerPidOf({ pid }: ContainerProcess): number {
  const line = /^NSpid:\s+(.*)$/m.exec(procFile(pid, "status"))?.[1] ?? "";
  return Number(line.split(/\s+/).at(-1));
}

function neighbour(at: number): Neighbour {
  const found = all[at];
  if (found === undefined) throw new Error("the stage is not open");
  return found;
}

/** What the member's shell prints for the command: read from the request in which the CLI sends it to the model. */
async function inside({ member, subject }: Neighbour, ...lines: string[]): Promise<string> {
  const call = subject.tools.shell(lines.join("\n"));
  t.model.script("Probe the sandbox", [{ kind: "reply", toolCalls: [call] }, "Probed."]);
  const { settlement } = await play(t, member, "Probe the sandbox.");
  expect(settlement).toMatchObject({ outcome: "completed", settled: true, context: "LIVE" });
  const rows = t.model.mainRequests().at(-1)?.request?.rows ?? [];
  return rows.findLast(({ role }) => role === "tool")?.text ?? "";
}

/** A try that must fail prints `closed`, one that did what it should not prints `OPEN`. */
const tried = (what: string, command: string) =>
  `if ( ${command} ) >/dev/null 2>&1; then echo "OPEN ${what}"; else echo "closed ${what}"; fi`;

/** PTRACE_ATTACH is 16, and the call has number 101 on x64. */
const trace = (pid: number | string) =>
  `perl -e 'exit(syscall(101, 16, $ARGV[0] + 0, 0, 0) == 0 ? 0 : 1)' ${pid}`;

test("each member's CLI runs under a user of its own in the sandbox's range, and of each there is one slot", async () => {
  const first = Number((await present(container)).Config.Labels?.["dev.holdfast.first-uid"]);
  expect(all.map(({ uid }) => uid)).toEqual(all.map((_, at) => first + at));
  // The kernel counts processes and watches by user: another sandbox of this engine must not share one.
  const other = t.host.createSandbox({ kind: "docker" }).id;
  await t.host.startSandbox(other);
  const { Config } = await present(t.host.store.sandbox(other)?.container?.containerId ?? "");
  expect(Math.abs(Number(Config.Labels?.["dev.holdfast.first-uid"]) - first)).toBeGreaterThanOrEqual(128);
  await t.host.removeSandbox(other);
});

for (const [at, name] of NAMES.entries()) {
  test(`laws 14, 15; ${name}: its tools can't read, signal or trace a neighbour or the bridge`, async () => {
    const own = neighbour(at);
    const others = all.filter((other) => other !== own);
    const targets = [{ uid: 0, pid: 1 }, ...others.map(({ uid, innerPid: pid }) => ({ uid, pid }))];
    const tries = [
      ...targets.flatMap(({ uid, pid }) => [
        ...["environ", "mem", "maps"].map((file) => tried(`${uid} ${file}`, `: </proc/${pid}/${file}`)),
        ...["fd", "cwd/", "root/"].map((folder) => tried(`${uid} ${folder}`, `ls /proc/${pid}/${folder}`)),
        tried(`${uid} signal`, `kill -0 ${pid}`),
        tried(`${uid} trace`, trace(pid)),
      ]),
      ...others.flatMap(({ member }) => [
        tried(`${member} slot`, `ls /home/slots/${member}`),
        tried(`${member} write`, `touch /home/slots/${member}/x /home/slots/${member}/home/x`),
        tried(`${member} rename`, `mv /home/slots/${member} /home/slots/gone`),
      ]),
      tried("token", "cat /run/holdfast/token"),
      tried("sockets", "ls /run/holdfast"),
      tried("journal", "ls /var/lib/holdfast"),
      tried("slot of its own", "mkdir /home/slots/m-x"),
    ];
    // Its own child shows that each try would tell.
    const controls = [
      "sleep 60 & child=$!",
      ...["environ", "mem", "maps"].map((file) => tried(`own ${file}`, `: </proc/$child/${file}`)),
      ...["fd", "cwd/", "root/"].map((folder) => tried(`own ${folder}`, `ls /proc/$child/${folder}`)),
      tried("own signal", "kill -0 $child"),
      tried("own trace", trace("$child")),
      "kill -9 $child",
    ];
    const printed = await inside(own, ...tries, ...controls, "echo end");
    const open = printed.match(/^OPEN .*$/gm) ?? [];
    expect(open.filter((line) => !line.startsWith("OPEN own "))).toEqual([]);
    expect(open).toHaveLength(8);
    expect(printed.match(/^closed .*$/gm)).toHaveLength(tries.length);
    expect(printed).toContain("end");
  });

  test(`law 14; ${name}: no secret of a neighbour is where its tools can look, and its server takes no stranger`, async () => {
    const own = neighbour(at);
    const others = all.filter((other) => other !== own);
    const secrets = others.flatMap(({ pid, subject: { server } }) => {
      const found = new RegExp(`${server?.passwordVariable ?? "^$"}=([^\\0]+)`).exec(
        procFile(pid, "environ"),
      );
      return server === null ? [] : [found?.[1] ?? ""];
    });
    expect(secrets.every((secret) => secret.length > 20)).toBe(true);
    const ports = others.flatMap(({ pid, subject: { server } }) => (server === null ? [] : [portOf(pid)]));
    const asked = (port: number) =>
      `exec 3<>/dev/tcp/127.0.0.1/${port} && printf 'GET /session HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 5 head -n 1 <&3`;
    const printed = await inside(
      own,
      // Whatever it may read of the file systems and of all processes, but its own slot: its conversation names them now.
      `grep -rslF ${secrets.map((secret) => `-e '${split(secret)}'`).join(" ")} /tmp /workspace /run /var /etc 2>/dev/null | sed 's/^/OPEN /'`,
      `for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -qF ${secrets.map((s) => `-e '${split(s)}'`).join(" ")} && echo "OPEN $p"; done`,
      ...ports.map((port) => `( ${asked(port)} ) 2>&1`),
      "find /tmp -mindepth 1 ! -user $(id -u) -readable 2>/dev/null | sed 's/^/OPEN /'",
      "echo end",
    );
    expect(printed.match(/^OPEN .*$/gm) ?? []).toEqual([]);
    expect(printed.match(/^HTTP\/1\.[01] 401/gm) ?? []).toHaveLength(ports.length);
    expect(printed).toContain("end");
  });

  test(`design 4; ${name}: the workspace is shared by group, and temporary files are the slot's own`, async () => {
    const own = neighbour(at);
    const printed = await inside(
      own,
      "cd /workspace",
      'for f in by-*; do test -e $f && (echo more >> $f && test -r $f && echo "shared $f"); done',
      "git init -q repo 2>/dev/null; git -C repo status --short >/dev/null && echo git",
      `echo mine > by-${at} && stat -c '%U:%G %a' by-${at}`,
      'echo "temporary $(dirname $(mktemp))"',
    );
    expect(printed.match(/^shared .*$/gm) ?? []).toHaveLength(at);
    expect(printed).toContain("git\n");
    expect(printed).toMatch(/:holdfast 66[04]$/m);
    expect(printed).toContain(`temporary /home/slots/${own.member}/tmp`);
  });

  test(`law 15; ${name}: its own tools see their slot and can end their CLI, as the documentation says`, async () => {
    const own = neighbour(at);
    const { server } = own.subject;
    const printed = await inside(
      own,
      "test -r ~ -a -w ~ -a -r ~/../data && echo 'own slot'",
      `kill -0 ${own.innerPid} && echo 'own process'`,
      `env | grep -c '^${server?.passwordVariable ?? "-"}=' | sed 's/^/password /'`,
      `cat /proc/${own.innerPid}/environ >/dev/null 2>&1 && echo 'own memory'`,
      "echo end",
    );
    expect(printed).toContain("own slot\nown process\n");
    // OpenCode hands its environment to its tools, Kilo takes the password out.
    expect(printed).toContain(`password ${own.subject.manifest.cli === "opencode" ? 1 : 0}`);
    // The binaries can be run and not read: the kernel shows nothing of their processes to their own user.
    expect(printed).not.toContain("own memory");
  });

  test(`P41, C.UTF-8; ${name}: its user has no name, its text is UTF-8, its environment is what we gave and the CLI's own`, async () => {
    const own = neighbour(at);
    const printed = await inside(
      own,
      'echo "name $(whoami 2>/dev/null)."',
      "printf 'kelp \\xc3\\xa9\\n' > ~/e; echo \"chars $(tr -d '\\n' < ~/e | wc -m)\"",
      "env | sed 's/=.*//' | sed 's/^/has /'",
    );
    expect(printed).toContain("name .\n");
    expect(printed).toContain("chars 6");
    const has = new Set([...printed.matchAll(/^has (\w+)$/gm)].map(([, variable]) => variable));
    for (const variable of ["HOME", "TMPDIR", "LANG", "NO_PROXY"]) expect(has).toContain(variable);
    for (const variable of ["HTTP_PROXY", "HOSTNAME", "NODE_OPTIONS", "LD_PRELOAD"])
      expect(has).not.toContain(variable);
  });
}

/** A text that finds another in a file, and not itself in a command line. */
function split(text: string): string {
  return `${text.slice(0, 9)}''${text.slice(9)}`;
}

function portOf(pid: number): number {
  const rows = procFile(pid, "net/tcp").trim().split("\n").slice(1);
  const uid = /^Uid:\s+(\d+)/m.exec(procFile(pid, "status"))?.[1];
  const [own] = rows.map((row) => row.trim().split(/\s+/)).filter((row) => row[3] === "0A" && row[7] === uid);
  return Number.parseInt(own?.[1]?.split(":")[1] ?? "", 16);
}
