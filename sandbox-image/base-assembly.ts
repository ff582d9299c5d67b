// Makes the files of the base from Debian packages in a temporary folder, by apt's download and by unpacking; about
// five seconds, no root, no chroot, no package script. Signatures are checked by apt as always. Knows no engine.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { ALTERNATIVES, BASE_PACKAGES, LEFT_OUT_PACKAGES, LEFT_OUT_PATHS } from "./base-recipe.ts";
import { runCommand } from "./command.ts";
import { IMAGE_FOLDERS, SLOT_GROUP } from "./layout.ts";
import { type TarEntry, tarStream } from "./tar.ts";

const UPDATE_TIMEOUT_MS = 120_000;
const DOWNLOAD_TIMEOUT_MS = 300_000;
const UNPACK_TIMEOUT_MS = 60_000;
const UNPACK_AT_ONCE = 2;
const MERGED_FOLDERS = ["bin", "sbin", "lib", "lib64"];
/** Only the distribution's own sources: what else a machine has configured is its own affair. */
const SOURCE_FILES = ["debian.sources", "ubuntu.sources"];

/** Hands the base's tar stream to `use` and removes the temporary folder whatever comes of it. */
export async function withAssembledBase<T>(
  options: { certificates: Buffer; report: (line: string) => void },
  use: (tar: Readable) => Promise<T>,
): Promise<T> {
  for (const program of ["apt-get", "dpkg-deb", "tar"]) {
    const probe = await runCommand(program, ["--version"], { timeoutMs: 10_000 });
    if (!probe.isSuccess) {
      throw new Error(
        `a base can only be made on Debian or Ubuntu (${program} is missing): give one with --base`,
      );
    }
  }
  const work = await mkdtemp(join(tmpdir(), "holdfast-base-"));
  try {
    const packages = await downloadPackages(work, options.report);
    const root = join(work, "root");
    await unpack(root, packages);
    await furnish(root, packages, options.certificates);
    return await use(Readable.from(baseTar(root)));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function downloadPackages(work: string, report: (line: string) => void): Promise<string[]> {
  const sources = join(work, "sources");
  for (const folder of [sources, join(work, "state/lists/partial"), join(work, "cache/archives/partial")]) {
    await mkdir(folder, { recursive: true });
  }
  for (const name of SOURCE_FILES) {
    const path = join("/etc/apt/sources.list.d", name);
    if (existsSync(path)) await copyFile(path, join(sources, name));
  }
  await writeFile(join(work, "status"), LEFT_OUT_PACKAGES.map(asInstalled).join("\n"));
  const own = {
    "Dir::State": join(work, "state"),
    "Dir::State::status": join(work, "status"),
    "Dir::Cache": join(work, "cache"),
    "Dir::Etc::SourceParts": sources,
    // The download user of apt may not enter our folder.
    "APT::Sandbox::User": "",
    "Acquire::Retries": "3",
    "Acquire::http::Timeout": "20",
    "Acquire::Languages": "none",
  };
  const places = Object.entries(own).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  report("fetching the base's Debian packages (about 35 MB)");
  await mustRun("apt-get", [...places, "-qq", "update"], UPDATE_TIMEOUT_MS);
  const install = ["-qq", "-y", "--no-install-recommends", "--download-only", "install", ...BASE_PACKAGES];
  await mustRun("apt-get", [...places, ...install], DOWNLOAD_TIMEOUT_MS);
  const archives = join(work, "cache/archives");
  const names = (await readdir(archives)).filter((name) => name.endsWith(".deb")).sort();
  if (names.length < BASE_PACKAGES.length) throw new Error(`apt-get fetched only ${names.length} packages`);
  return names.map((name) => join(archives, name));
}

async function unpack(root: string, packages: readonly string[]): Promise<void> {
  for (const folder of MERGED_FOLDERS) {
    await mkdir(join(root, "usr", folder), { recursive: true });
    await symlink(join("usr", folder), join(root, folder));
  }
  const waiting = [...packages];
  const worker = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await unpackOne(root, next);
  };
  // All are awaited, so that none still writes into the folder when it is removed.
  const ends = await Promise.allSettled(Array.from({ length: UNPACK_AT_ONCE }, worker));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/** dpkg-deb's own unpacking would replace the links bin, sbin and lib by folders; tar can be told not to. */
async function unpackOne(root: string, path: string): Promise<void> {
  const limit = { timeout: UNPACK_TIMEOUT_MS, killSignal: "SIGKILL" } as const;
  const skip = LEFT_OUT_PATHS.map((left) => `--exclude=./${left}`);
  const args = ["-x", "-C", root, "--keep-directory-symlink", "--no-same-owner", "-p", ...skip];
  const reader = spawn("dpkg-deb", ["--fsys-tarfile", path], {
    stdio: ["ignore", "pipe", "inherit"],
    ...limit,
  });
  const writer = spawn("tar", args, { stdio: ["pipe", "ignore", "inherit"], ...limit });
  const ends = [endOf(reader), endOf(writer)];
  reader.stdout.pipe(writer.stdin);
  // tar stops reading at the archive's end mark; the padding behind it is read off, and the exit codes decide.
  writer.stdin.on("error", () => undefined);
  writer.once("close", () => reader.stdout.resume());
  const codes = await Promise.all(ends);
  if (codes.some((code) => code !== 0)) throw new Error(`could not unpack ${path}`);
}

/** What the packages' scripts would have made, and what only we want. */
async function furnish(root: string, packages: readonly string[], certificates: Buffer): Promise<void> {
  const passwd = await readFile(join(root, "usr/share/base-passwd/passwd.master"), "utf8");
  const group = await readFile(join(root, "usr/share/base-passwd/group.master"), "utf8");
  await writeFile(join(root, "etc/passwd"), passwd);
  await writeFile(join(root, "etc/group"), `${group.trimEnd()}\n${SLOT_GROUP.name}:x:${SLOT_GROUP.gid}:\n`);
  await writeFile(join(root, "etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n");
  await copyFile(join(root, "usr/share/base-files/profile"), join(root, "etc/profile"));
  await writeFile(join(root, "etc/hosts"), "127.0.0.1 localhost\n");
  await mkdir(join(root, "etc/ssl/certs"), { recursive: true });
  await writeFile(join(root, "etc/ssl/certs/ca-certificates.crt"), certificates);
  for (const { path, target } of ALTERNATIVES) {
    if (!existsSync(join(root, path))) await symlink(target, join(root, path));
  }
  await pruneDocuments(join(root, "usr/share/doc"));
  await mkdir(join(root, "usr/share/holdfast"), { recursive: true });
  await writeFile(join(root, "usr/share/holdfast/packages"), await packageList(packages));
}

/** Name and digest of every package, so that an image says what it holds. */
async function packageList(packages: readonly string[]): Promise<string> {
  let text = "";
  for (const path of packages) {
    const digest = createHash("sha256");
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) digest.update(chunk);
    text += `${digest.digest("hex")}  ${path.slice(path.lastIndexOf("/") + 1)}\n`;
  }
  return text;
}

async function pruneDocuments(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    for (const file of await readdir(join(folder, name)).catch(() => [] as string[])) {
      if (file !== "copyright") await rm(join(folder, name, file), { recursive: true, force: true });
    }
  }
}

/** Our folders first, with their owners, then the rest as root's, whoever runs this. */
async function* baseTar(root: string): AsyncGenerator<Buffer> {
  const folders = IMAGE_FOLDERS.map(
    ({ path, mode, gid }): TarEntry => ({ kind: "folder", path: path.slice(1), mode, gid }),
  );
  yield* tarStream(folders, true);
  // No set-uid program is of use to an agent; none of the packages has one today.
  const args = [
    "-c",
    "-C",
    root,
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--sort=name",
    "--mode=u-s,g-s",
    ".",
  ];
  const limit = { timeout: UNPACK_TIMEOUT_MS, killSignal: "SIGKILL" } as const;
  const writer = spawn("tar", args, { stdio: ["ignore", "pipe", "inherit"], ...limit });
  const end = endOf(writer);
  for await (const chunk of writer.stdout as AsyncIterable<Buffer>) yield chunk;
  if ((await end) !== 0) throw new Error("tar could not read the assembled base");
}

function asInstalled(name: string): string {
  const fields = {
    Package: name,
    Status: "install ok installed",
    Priority: "optional",
    Section: "misc",
    Maintainer: "none <none@localhost>",
    Architecture: "amd64",
    Version: "9999",
    Description: "left out",
  };
  return `${Object.entries(fields)
    .map(([field, value]) => `${field}: ${value}`)
    .join("\n")}\n`;
}

async function mustRun(file: string, args: readonly string[], timeoutMs: number): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  const end = await runCommand(file, args, { timeoutMs, env });
  if (end.isSuccess) return;
  throw new Error(`${file} ${args.at(-1)} failed:\n${end.tail.trim().split("\n").slice(-20).join("\n")}`);
}

function endOf(child: ReturnType<typeof spawn>): Promise<number | null> {
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", reject);
  child.once("close", (code) => resolve(code));
  return promise;
}
