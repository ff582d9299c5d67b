// The first step of every npm script: makes the locked packages and the Node 24 among them be there, then ends.
// Plain JavaScript, because it runs on whatever Node (20 or newer) the machine has. Does nothing, in about 50 ms,
// when the last install was of this lock file. Runs no install script, and starts no tool of ours.
//
// Several first starts at once share one install: the first to make the lock folder installs, the others wait.
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { basename, delimiter, dirname, join, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const stamp = join(modules, ".holdfast-installed");
const link = join(modules, ".bin", "node");
const lock = join(root, ".holdfast", "install.lock");
const binFolder = join("node_modules", ".bin");

const installLimitMs = 10 * 60_000; // npm ci of 160 MB over a slow line
const waitLimitMs = installLimitMs + 60_000; // a waiter outlasts the installer's own limit
const ownerlessMs = 10_000; // between making the lock folder and naming its owner lie microseconds
const pollMs = 200;

// What a user's .npmrc, NODE_ENV=production or npm_config_* may say otherwise, and would end in "tsx: not found".
// EBADENGINE warnings come from the system Node; the tools themselves run on the Node 24 that is being installed.
const despiteUserConfig = [
  "--include=dev",
  "--include=optional",
  "--bin-links",
  "--package-lock",
  "--engine-strict=false",
  "--no-audit",
  "--no-fund",
  "--loglevel=error",
];

let claim = ""; // name of our file in the lock folder while we hold the lock

const runtime = `node-${process.platform}-${process.arch}`;
const wanted = readJson("package.json").optionalDependencies[runtime];
const key = [sha256("package-lock.json"), process.platform, process.arch].join(" ");

class Stop extends Error {
  constructor(message, next) {
    super(`${message}\n  next: ${next}`);
  }
}

try {
  if (!isInstalled()) await installOnce();
} catch (error) {
  say(error instanceof Stop ? error.message : (error.stack ?? String(error)));
  process.exitCode = 1;
}

function isInstalled() {
  return readText(stamp) === key && (!wanted || versionOf(link) === `v${wanted}`);
}

async function installOnce() {
  if (major(process.versions.node) < 20)
    throw new Stop(
      `Node ${process.versions.node} is too old to install with`,
      "install Node 20 or newer, run again",
    );
  if (!wanted && major(process.versions.node) < 24)
    throw new Stop(
      `there is no packaged Node for ${process.platform}-${process.arch}`,
      "install Node 24 yourself",
    );
  if (!(await takeLock())) return;
  try {
    await install();
  } finally {
    releaseLock();
  }
}

/** Installs while the lock is held. The stamp goes first and comes back last, so that a killed install is redone. */
async function install() {
  const npm = findNpm();
  say("installing the locked packages (first run or changed lock file)");
  fs.rmSync(stamp, { force: true });
  const { code, passedOn } = await run([...npm, "ci", "--ignore-scripts", ...despiteUserConfig]);
  if (passedOn) throw new Stop(`the install was ended by ${passedOn}`, "run again; it starts over");
  if (code !== 0)
    throw new Stop(
      `npm ci failed (${code})`,
      "look at npm's own lines above; `npm ping` tells whether the registry answers; then run again",
    );
  if (wanted) linkRuntime();
  fs.writeFileSync(stamp, key);
}

/** npm 10 removes .bin/node while it drops the package of the other architecture, so the link is made here. */
function linkRuntime() {
  const binary = join(modules, runtime, "bin", "node");
  if (!fs.existsSync(binary))
    throw new Stop(
      `npm did not deliver ${runtime}@${wanted} (it skips an optional package it cannot fetch)`,
      `see that \`npm view ${runtime}@${wanted} version\` answers, then run again`,
    );
  fs.mkdirSync(dirname(link), { recursive: true });
  fs.rmSync(link, { force: true });
  fs.symlinkSync(join("..", runtime, "bin", "node"), link);
  if (versionOf(link) !== `v${wanted}`)
    throw new Stop(
      `${runtime}@${wanted} does not run on this machine`,
      `try ${link} --version; it needs glibc 2.28 or newer (not musl)`,
    );
}

/** The command for npm: the one that started us, else the one on PATH. Never with a node that npm ci will delete. */
function findNpm() {
  const { npm_execpath: started, npm_node_execpath: startedNode } = process.env;
  if (started && /^npm-cli\.c?js$/.test(basename(started)) && fs.existsSync(started))
    return [startedNode && !startedNode.startsWith(modules) ? startedNode : lastingNode(), started];
  const found = onPath("npm");
  if (!found)
    throw new Stop(
      "npm was not found",
      "install npm 10 or newer with Node, or put it on PATH; then `npm start`",
    );
  const real = fs.realpathSync(found);
  return /npm-cli\.c?js$/.test(real) ? [lastingNode(), real] : [found];
}

function lastingNode() {
  return process.execPath.startsWith(modules) ? (onPath("node") ?? process.execPath) : process.execPath;
}

function onPath(name) {
  const names = process.platform === "win32" ? [`${name}.cmd`, `${name}.exe`] : [name];
  return outerPath()
    .flatMap((folder) => names.map((entry) => join(folder, entry)))
    .find((file) => fs.existsSync(file) && !fs.realpathSync(file).startsWith(modules + sep));
}

function outerPath() {
  return (process.env.PATH ?? "").split(delimiter).filter((entry) => entry && !entry.endsWith(binFolder));
}

/** Runs a command in the root, passes signals on, ends it at the limit; gives its exit code, and the signal passed on. */
async function run([command, ...args]) {
  const child = spawn(command, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, PATH: outerPath().join(delimiter) },
    timeout: installLimitMs,
  });
  if (child.pid) shareLock(child.pid);
  let passedOn;
  const pass = (signal) => {
    passedOn = signal;
    child.kill(signal);
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, pass);
  try {
    const code = await new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => resolve(code ?? signal));
    });
    return { code, passedOn };
  } finally {
    for (const signal of signals) process.off(signal, pass);
  }
}

/** True when the lock is ours, false when another start finished the install meanwhile. */
async function takeLock() {
  const until = performance.now() + waitLimitMs;
  let told = false;
  fs.mkdirSync(dirname(lock), { recursive: true });
  while (!makeLock() && !takeOverLock()) {
    if (performance.now() > until)
      throw new Stop(
        "another start has been installing for too long",
        `look at its processes (${readClaims().join(", ")}), or remove ${lock}; then run again`,
      );
    if (!told) say("another start is installing the packages; waiting for it");
    told = true;
    await sleep(pollMs);
    if (isInstalled()) return false;
  }
  if (!isInstalled()) return true;
  releaseLock();
  return false;
}

function makeLock() {
  if (!attempt(() => fs.mkdirSync(lock), "EEXIST")) return false;
  claim = claimOf([process.pid]);
  return attempt(() => fs.writeFileSync(join(lock, claim), ""), "ENOENT");
}

/**
 * Stale is a lock none of whose processes lives, or that nobody claimed for long after it was made. The one claim is
 * renamed to ours: of several that see the same stale lock, one rename works, and a newer claim has another name.
 */
function takeOverLock() {
  const [other] = readClaims();
  if (other === undefined) {
    const made = fs.statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - made > ownerlessMs) attempt(() => fs.rmdirSync(lock), "ENOENT", "ENOTEMPTY");
    return false;
  }
  if (ownersOf(other).some(({ pid, start }) => isAlive(pid) && startOf(pid) === start)) return false;
  claim = claimOf([process.pid]);
  return attempt(() => fs.renameSync(join(lock, other), join(lock, claim)), "ENOENT");
}

/** npm may outlive a bootstrap that was killed hard, so the lock is npm's too. */
function shareLock(pid) {
  const shared = claimOf([process.pid, pid]);
  fs.renameSync(join(lock, claim), join(lock, shared));
  claim = shared;
}

function releaseLock() {
  attempt(() => fs.unlinkSync(join(lock, claim)), "ENOENT");
  attempt(() => fs.rmdirSync(lock), "ENOENT", "ENOTEMPTY");
}

function readClaims() {
  let names = [];
  attempt(() => {
    names = fs.readdirSync(lock);
  }, "ENOENT");
  return names;
}

/** A claim is a file name: pid and start of each owner (a pid given anew has another start), and a nonce. */
function claimOf(pids) {
  return [...pids.map((pid) => `${pid}@${startOf(pid)}`), randomUUID()].join("_");
}

function ownersOf(name) {
  return name
    .split("_")
    .slice(0, -1)
    .map((owner) => owner.split("@"))
    .map(([pid, start]) => ({ pid: Number(pid), start }));
}

/** Does it; false when it fails in one of the named ways. */
function attempt(act, ...codes) {
  try {
    act();
    return true;
  } catch (error) {
    if (codes.includes(error.code)) return false;
    throw error;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** When a process began, in the kernel's ticks; "" where there is no /proc. */
function startOf(pid) {
  const text = readText(`/proc/${pid}/stat`) ?? "";
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

function versionOf(binary) {
  const probe = spawnSync(binary, ["--version"], { encoding: "utf8", timeout: 10_000 });
  return probe.status === 0 ? probe.stdout.trim() : undefined;
}

function readText(path) {
  try {
    return fs.readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "ESRCH") return undefined;
    throw error;
  }
}

function readJson(name) {
  return JSON.parse(fs.readFileSync(join(root, name), "utf8"));
}

function sha256(name) {
  return createHash("sha256")
    .update(fs.readFileSync(join(root, name)))
    .digest("hex");
}

function major(version) {
  return Number(version.split(".")[0]);
}

function say(message) {
  process.stderr.write(`holdfast: ${message}\n`);
}
