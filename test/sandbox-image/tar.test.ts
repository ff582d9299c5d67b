import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { onlyFileOf, type TarEntry, tarHeader, tarStream } from "../../sandbox-image/tar.ts";

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "hf-tar-"));
  folders.push(folder);
  return folder;
}

async function archiveOf(entries: readonly TarEntry[], isOpen = false): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of tarStream(entries, isOpen)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test("the system's tar reads owners, modes, links and contents as they were given", async () => {
  const folder = freshFolder();
  writeFileSync(join(folder, "source"), "from a file");
  const archive = await archiveOf([
    { kind: "folder", path: "workspace", mode: 0o2775, gid: 20_000 },
    { kind: "bytes", path: "workspace/a", mode: 0o711, bytes: Buffer.from("some bytes") },
    { kind: "file", path: "workspace/b", mode: 0o644, source: join(folder, "source") },
    { kind: "link", path: "workspace/c", mode: 0o777, target: "a" },
  ]);
  const list = execFileSync("tar", ["-tv", "--numeric-owner"], { input: archive, encoding: "utf8" })
    .trim()
    .split("\n");
  expect(list.map((line) => line.split(/\s+/).slice(0, 2).join(" "))).toEqual([
    "drwxrwsr-x 0/20000",
    "-rwx--x--x 0/0",
    "-rw-r--r-- 0/0",
    "lrwxrwxrwx 0/0",
  ]);
  expect(list.at(-1)).toMatch(/workspace\/c -> a$/);
  execFileSync("tar", ["-x", "--no-same-owner", "-C", folder], { input: archive });
  expect(readFileSync(join(folder, "workspace/a"), "utf8")).toBe("some bytes");
  expect(readFileSync(join(folder, "workspace/b"), "utf8")).toBe("from a file");
});

test.each([99, 100, 101, 155, 256, 600])("a name of %i bytes arrives whole", async (length) => {
  const path = "n".repeat(length);
  const link: TarEntry = { kind: "link", path, mode: 0o777, target: `${path}t` };
  const list = execFileSync("tar", ["-tv"], { input: await archiveOf([link]), encoding: "utf8" });
  expect(list).toContain(` ${path} -> ${path}t`);
});

test("an open archive can be followed by another one", async () => {
  const first = await archiveOf([{ kind: "folder", path: "one", mode: 0o755 }], true);
  const second = await archiveOf([{ kind: "folder", path: "two", mode: 0o755 }]);
  const list = execFileSync("tar", ["-t"], { input: Buffer.concat([first, second]), encoding: "utf8" });
  expect(list).toBe("one/\ntwo/\n");
});

test("the same entries are the same bytes", async () => {
  const entries: TarEntry[] = [{ kind: "bytes", path: "a", mode: 0o644, bytes: Buffer.from("x") }];
  expect(await archiveOf(entries)).toEqual(await archiveOf(entries));
});

test("a file beyond the format's size is refused", () => {
  const entry: TarEntry = { kind: "file", path: "large", mode: 0o644, source: "/none" };
  expect(() => tarHeader(entry, 8 ** 11)).toThrow(TypeError);
});

test("the one file of an answer is read with its mode, extended headers skipped", async () => {
  const path = `/opt/${"long".repeat(40)}/manifest.json`;
  const archive = await archiveOf([
    { kind: "bytes", path: "manifest.json", mode: 0o644, bytes: Buffer.from("{}") },
  ]);
  expect(onlyFileOf(archive, path)).toEqual({ bytes: Buffer.from("{}"), mode: 0o644 });
  const folder = freshFolder();
  writeFileSync(join(folder, "manifest.json"), "{}");
  const extended = execFileSync("tar", ["-c", "--format=pax", "-C", folder, "manifest.json"]);
  expect(onlyFileOf(extended, path).bytes.toString()).toBe("{}");
});

test("a link, a folder, another name and an empty answer are refused", async () => {
  const link = await archiveOf([{ kind: "link", path: "bridge.cjs", mode: 0o777, target: "/etc/shadow" }]);
  expect(() => onlyFileOf(link, "/opt/bridge.cjs")).toThrow("no plain file (tar type 2)");
  const folder = await archiveOf([{ kind: "folder", path: "bridge.cjs", mode: 0o755 }]);
  expect(() => onlyFileOf(folder, "/opt/bridge.cjs")).toThrow("no plain file");
  const other = await archiveOf([{ kind: "bytes", path: "other", mode: 0o644, bytes: Buffer.from("x") }]);
  expect(() => onlyFileOf(other, "/opt/bridge.cjs")).toThrow("got other");
  expect(() => onlyFileOf(Buffer.alloc(1024), "/a")).toThrow("no file in the answer");
});

test("an answer cut at any place gives an error, never a shorter file", async () => {
  const whole = await archiveOf([
    { kind: "bytes", path: "a", mode: 0o644, bytes: Buffer.from("0123456789") },
  ]);
  for (let end = 0; end < 512 + 10; end++) {
    expect(() => onlyFileOf(whole.subarray(0, end), "/a")).toThrow();
  }
  expect(onlyFileOf(whole.subarray(0, 512 + 10), "/a").bytes.toString()).toBe("0123456789");
});
