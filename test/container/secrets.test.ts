/**
 * Where secrets are, and nowhere else (law 14, P45): every credential and token that the system handles is a canary, and
 * one run over all CLIs is looked at from everywhere: arguments and environments of all processes, both sockets, logs,
 * store, backup, events, what the command line prints, the container's description and files, the image's layers. The
 * places that are allowed are those of the table in docs/security.md.
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { modelToken } from "../../bridge/model-token.ts";
import { backupStore } from "../../controller/store/backup.ts";
import type { SandboxKind } from "../../controller/store/records.ts";
import type { CliName } from "../../protocol/locator.ts";
import { PROTOCOL_OF_CLI } from "../../protocol/model-protocol.ts";
import { type Canary, canariesIn, canary, filesWithCanaries, plainOnly, Watch } from "../support/canaries.ts";
import { cli } from "../support/cli.ts";
import { MEMBER, startTestHost, type TestHost } from "../support/host.ts";
import { openTap, type Tap } from "../support/tap.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { type Followed, follow, play, tellOnFailure } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { engineStream, present, processesIn } from "./engine.ts";

/** The CLIs that are looked at, and the variables in which each gets a secret of its own; [] for one that gets none. */
const CLIS: Readonly<Record<CliName, readonly string[]>> = {
  opencode: ["OPENCODE_SERVER_PASSWORD"],
  kilo: ["KILO_SERVER_PASSWORD"],
  claude: [],
  codex: [],
  pi: [],
};
const MODEL_TOKENS = Object.keys(CLIS)
  .map((name) => `model token of ${name}`)
  .sort();
/** How each CLI's model calls the shell. */
const SHELLS: Readonly<Record<CliName, { name: string; key: string }>> = {
  opencode: { name: "bash", key: "command" },
  kilo: { name: "bash", key: "command" },
  claude: { name: "Bash", key: "command" },
  codex: { name: "exec_command", key: "cmd" },
  pi: { name: "bash", key: "command" },
};
const WORD = `mussel${randomBytes(6).toString("hex")}`;

interface Seen {
  t: TestHost;
  sandbox: string;
  container: string;
  folder: string;
  members: Map<CliName, string>;
  turns: Followed[];
  taps: { link: Tap; model: Tap };
  canaries: Canary[];
  /** Which canary is whose: of a member's own CLI, in whose slot it may be. */
  passwords: Map<string, CliName>;
}

/** One sandbox with a member of each CLI, each in the middle of a tool call; everything that passes is kept. */
async function scene(kind: SandboxKind): Promise<Seen> {
  const key = `sk-canary-${randomBytes(24).toString("hex")}`;
  // Of the controller's own environment: nothing of it may reach a sandbox.
  const ambient = `ambient-${randomBytes(24).toString("hex")}`;
  process.env.HOLDFAST_TEST_CANARY = ambient;
  onTestFinished(() => {
    delete process.env.HOLDFAST_TEST_CANARY;
  });
  const taps: Partial<Seen["taps"]> = {};
  const t = await startTestHost({
    key,
    around: (drivers) =>
      drivers.map((driver) => ({
        ...driver,
        async bridgeConfig(spec, containerId) {
          const config = await driver.bridgeConfig(spec, containerId);
          const at = (name: string) => join(spec.directory, name);
          taps.link ??= await openTap(at("tap-ctl.sock"), at("ctl.sock"));
          taps.model ??= await openTap(at("tap-model.sock"), at("model.sock"));
          const tapped = (path: string) => path.replace(/[^/]+$/, (name) => `tap-${name}`);
          return {
            ...config,
            controllerSocket: tapped(config.controllerSocket),
            modelSocket: tapped(config.modelSocket),
          };
        },
      })),
  });
  tellOnFailure(t);
  onTestFinished(async () => {
    await Promise.all([taps.link?.close(), taps.model?.close()]);
  });
  const sandbox = t.host.createSandbox({ kind }).id;
  const members = new Map<CliName, string>();
  const turns: Followed[] = [];
  // It runs while everything is looked at, as a tool of the member.
  for (const [name, shell] of Object.entries(SHELLS)) {
    const words = { [shell.key]: "sleep 100; echo slept", description: "wait" };
    const toolCalls = [{ name: shell.name, arguments: words }];
    t.model.script(`Wait a while, ${name}`, [{ kind: "reply", toolCalls }, "Waited."]);
  }
  for (const name of Object.keys(CLIS) as CliName[]) {
    const model = { ...MEMBER.model, protocol: PROTOCOL_OF_CLI[name] };
    const member = t.host.createMember({ sandbox, cli: name, ...MEMBER, model }).id;
    members.set(name, member);
    const first = await play(t, member, `The code word is ${WORD}.`);
    expect(first.settlement).toMatchObject({ outcome: "completed", settled: true });
    turns.push(first);
  }
  // The key was really used: with another one each request fails.
  expect(t.model.requests().filter(({ fault }) => fault !== null)).toEqual([]);
  for (const [name, member] of members) {
    const turn = follow(t.host.submit(member, `Wait a while, ${name}.`));
    await turn.heard("turn.tool", ({ status }) => status === "running");
    turns.push(turn);
  }
  const folder = join(t.directory, "s", sandbox);
  const passwords = new Map<string, CliName>();
  const canaries = [
    canary("key", key),
    canary("ambient", ambient),
    canary("token", readFileSync(join(folder, "token"), "utf8").trim()),
  ];
  for (const [name, variables] of Object.entries(CLIS) as Array<[CliName, readonly string[]]>) {
    for (const variable of variables) {
      canaries.push(canary(variable, await until(variable, () => variableOf(variable, sandbox))));
      passwords.set(variable, name);
    }
  }
  // One process each so far, in the bridge's first life.
  for (const [name, member] of members) {
    const secret = readFileSync(join(folder, "token"), "utf8").trim();
    canaries.push(
      canary(`model token of ${name}`, modelToken(secret, { member, epoch: 1, processGeneration: 1 })),
    );
    passwords.set(`model token of ${name}`, name);
  }
  const container = t.host.store.sandbox(sandbox)?.container?.containerId ?? "";
  const { link, model } = taps;
  if (link === undefined || model === undefined) throw new Error("nothing was tapped");
  return { t, sandbox, container, folder, members, turns, taps: { link, model }, canaries, passwords };
}

interface Process {
  pid: number;
  argv: Buffer;
  environment: Buffer;
}

/** Every process of the machine that may be looked at. */
function allProcesses(): Process[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const [argv, environment] = ["cmdline", "environ"].map((file) => readFileSync(`/proc/${name}/${file}`));
      return [{ pid: Number(name), argv: argv as Buffer, environment: environment as Buffer }];
    } catch {
      // It has ended, or is another user's.
      return [];
    }
  });
}

/** The mark of the slot that a process is of, from its environment. */
function slotOf(environment: string): string | undefined {
  return /(?:^|\0)HOLDFAST_SLOT=([^\0]*)/.exec(environment)?.[1];
}

/** The variable's value in a process of this sandbox. */
function variableOf(variable: string, sandbox: string): string | undefined {
  for (const { environment } of allProcesses()) {
    const text = environment.toString("utf8");
    if (!(slotOf(text) ?? "").includes(`/${sandbox}/`)) continue;
    const found = text.split("\0").find((entry) => entry.startsWith(`${variable}=`));
    if (found !== undefined) return found.slice(variable.length + 1);
  }
  return undefined;
}

/** Where each canary is, place by place; a place without one is not named. */
class Findings {
  readonly places: Record<string, string[]> = {};
  readonly #canaries: readonly Canary[];
  #looked = 0;

  constructor(canaries: readonly Canary[]) {
    this.#canaries = canaries;
  }

  look(place: string, bytes: Buffer | string): void {
    this.#looked += 1;
    this.add(place, canariesIn(bytes, this.#canaries));
  }

  add(place: string, names: readonly string[]): void {
    if (names.length > 0) this.places[place] = [...new Set([...(this.places[place] ?? []), ...names])].sort();
  }

  get looked(): number {
    return this.#looked;
  }
}

/** Arguments and environments. A CLI's own secret is in the environment of its slot's processes, and of no other. */
function lookAtProcesses(seen: Seen, findings: Findings): void {
  for (const { pid, argv, environment } of allProcesses()) {
    findings.look(`arguments of process ${pid}`, argv);
    const slot = slotOf(environment.toString("utf8"));
    const owner = [...seen.members].find(
      ([, member]) => slot === `${seen.t.host.store.id}/${seen.sandbox}/${member}`,
    )?.[0];
    const others = seen.canaries.filter(
      ({ name }) => owner === undefined || seen.passwords.get(name) !== owner,
    );
    // The test's own process is the controller here, and has the ambient canary.
    if (pid === process.pid) continue;
    findings.add(
      `environment of process ${pid} (${argv.toString().slice(0, 60)})`,
      canariesIn(environment, others),
    );
  }
}

function lookAtSockets({ taps }: Seen, findings: Findings): void {
  findings.look("link, from the bridge", taps.link.sent());
  findings.look("link, to the bridge", taps.link.received());
  findings.look("model, from the sandbox", taps.model.sent());
  findings.look("model, to the sandbox", taps.model.received());
}

/** Every file of the store's folder, with its mode; the sandbox's slots apart, which are files of the sandbox. */
function lookAtStore({ t }: Seen, findings: Findings): void {
  for (const entry of readdirSync(t.directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const name = path.slice(t.directory.length + 1);
    const mode = (statSync(path).mode & 0o777).toString(8);
    // By another process: this one is the controller here, and closing a file of the database lets go of its locks.
    findings.look(`${name} (${mode})`, execFileSync("cat", [path], { maxBuffer: 1e9 }));
    if (!/^s\/[^/]+\/(slots|workspace|bridge\.cjs|pi-extension\.mjs)/.test(name))
      expect([name, mode]).toEqual([name, "600"]);
  }
}

async function lookAtRecords({ t, turns, members }: Seen, findings: Findings): Promise<void> {
  const copy = join(temporaryDirectory(), "backup.db");
  await backupStore({ directory: t.directory, file: copy, nowAt: () => Date.now() });
  findings.look("a backup", readFileSync(copy));
  for (const { handle, events, seen } of turns) {
    findings.look(`events of ${handle.id}`, JSON.stringify([events, t.host.store.eventsOf(handle.id)]));
    findings.look(`record of ${handle.id}`, JSON.stringify(t.host.turn(handle.id)));
    findings.look(`text of ${handle.id}`, seen());
    findings.look(`launch of ${handle.id}`, Buffer.from(t.host.store.launchOf(handle.id)?.bytes ?? []));
  }
  for (const member of members.values()) findings.look(member, JSON.stringify(t.host.member(member)));
  findings.look("warnings", t.warnings.join("\n"));
  for (const words of [
    ["sandbox", "ls"],
    ["host"],
    ["doctor"],
    ["store", "check"],
    ["turn", "show", turns[0]?.handle.id ?? ""],
  ]) {
    const { stdout, stderr } = await cli([...words, "--json"], { store: t.directory, limitMs: 60_000 });
    expect(stdout.length).toBeGreaterThan(0);
    findings.look(`holdfast ${words.join(" ")}`, stdout + stderr);
  }
}

async function lookAtEngine(
  { t, container, sandbox }: Seen,
  canaries: readonly Canary[],
  findings: Findings,
): Promise<void> {
  const { imageId = "" } = t.host.store.sandbox(sandbox)?.container ?? {};
  for (const path of [
    `/containers/${container}/json`,
    `/containers/${container}/logs?stdout=1&stderr=1`,
    `/containers/${container}/top?ps_args=-eo%20pid,args`,
    `/images/${imageId}/json`,
    `/images/${imageId}/history`,
  ]) {
    const answer = await buffer(await engineStream(path));
    expect(answer.length).toBeGreaterThan(100);
    findings.look(
      `engine: ${path.replace(/\?.*/, "").replace(container, "ID").replace(imageId, "ID")}`,
      answer,
    );
  }
  const layers = new Watch(plainOnly(canaries));
  let bytes = 0;
  for await (const piece of (await engineStream(`/images/${imageId}/get`)) as AsyncIterable<Buffer>) {
    bytes += piece.length;
    layers.see(piece);
  }
  expect(bytes).toBeGreaterThan(100e6);
  findings.add("the image's layers", [...layers.found]);
}

test("law 14, P45: in a container, over all CLIs, secrets are where the table says, and nowhere else", {
  timeout: 240_000,
}, async () => {
  const seen = await scene("docker");
  // A tool runs meanwhile, as a process of its slot's user; what such a tool can see is said in the document.
  await until("the tools", async () => {
    const tools = (await processesIn(seen.container)).filter(({ command }) =>
      command.startsWith("sleep 100"),
    );
    return new Set(tools.map(({ uid }) => uid)).size === seen.members.size;
  });
  const findings = new Findings(seen.canaries);
  lookAtProcesses(seen, findings);
  lookAtSockets(seen, findings);
  lookAtStore(seen, findings);
  await lookAtRecords(seen, findings);
  await lookAtEngine(seen, seen.canaries, findings);
  const word = canary("word", WORD);
  const files = await filesWithCanaries(
    await engineStream(`/containers/${seen.container}/export`),
    [...seen.canaries, word],
    // Of the image, and unchanged, which the attestation has seen to; its layers were looked at.
    (path) => /^(opt|usr)\//.test(path),
  );
  for (const { path, mode, canaries } of files)
    findings.add(
      `file ${path} (${mode.toString(8)})`,
      canaries.filter((name) => name !== "word"),
    );
  expect(findings.places).toEqual({
    // The first frame of the one link.
    "link, from the bridge": ["token"],
    // In the header of each call, where the host takes it away.
    "model, from the sandbox": MODEL_TOKENS,
    [`s/${seen.sandbox}/token (600)`]: ["token"],
  });
  expect(seen.taps.link.sent().toString("latin1").split(tokenOf(seen)).length - 1).toBe(
    seen.taps.link.connections(),
  );

  // The eyes see: the code word is where it must be.
  expect(findings.looked).toBeGreaterThan(50);
  for (const place of [
    seen.taps.link.received(),
    seen.taps.link.sent(),
    seen.taps.model.sent(),
    seen.taps.model.received(),
  ])
    expect(canariesIn(place, [word])).toEqual(["word"]);
  for (const member of seen.members.values())
    expect(
      files.filter(({ path, canaries }) => path.includes(member) && canaries.includes("word")),
    ).not.toEqual([]);
  // Conversations are their slot's alone: it owns them, and nobody else gets through its door, whatever their own modes
  // (Codex leaves its records open to the group, which is all members').
  const root = `/proc/${(await present(seen.container)).State.Pid}/root`;
  for (const { path, uid } of files.filter(({ path: at }) => at.startsWith("home/slots/"))) {
    expect([path, uid]).toEqual([path, uid >= 20_001 ? uid : 0]);
    const door = statSync(join(root, path.split("/").slice(0, 3).join("/")));
    expect([path, door.mode & 0o777, door.uid]).toEqual([path, 0o700, uid]);
  }
});

test("law 14, P45: in a process sandbox nothing of the controller's environment, and no secret in arguments or files", {
  timeout: 240_000,
}, async () => {
  const seen = await scene("process");
  const findings = new Findings(seen.canaries);
  lookAtProcesses(seen, findings);
  lookAtSockets(seen, findings);
  lookAtStore(seen, findings);
  await lookAtRecords(seen, findings);
  expect(findings.places).toEqual({
    "link, from the bridge": ["token"],
    "model, from the sandbox": MODEL_TOKENS,
    [`s/${seen.sandbox}/token (600)`]: ["token"],
  });
});

function tokenOf({ folder }: Seen): string {
  return readFileSync(join(folder, "token"), "utf8").trim();
}
