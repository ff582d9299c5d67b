import { spawnSync } from "node:child_process";
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { plainFileOf } from "../../../controller/sandboxes/tar-file.ts";
import { tarHeader, tarOf } from "../../support/tar.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";

const refusal = (why: RegExp) =>
  expect.objectContaining({ code: "ENGINE_ERROR", message: expect.stringMatching(why) });

/** A real archive, as tar itself writes it. */
function archive(directory: string, format: string, ...names: string[]): Buffer {
  const made = spawnSync("tar", [`--format=${format}`, "-C", directory, "-cf", "-", ...names]);
  expect(made.status, made.stderr.toString()).toBe(0);
  return made.stdout;
}

test("the one plain file's bytes come out of every usual format", () => {
  const directory = temporaryDirectory();
  const bytes = Buffer.from([0, 1, 2, 255, ...Buffer.from("Größe\n"), ...Buffer.alloc(600, 7)]);
  writeFileSync(join(directory, "file"), bytes);
  for (const format of ["ustar", "gnu", "v7", "posix"])
    expect(plainFileOf(archive(directory, format, "file")).equals(bytes), format).toBe(true);
});

test("an empty file is a file", () => {
  expect(plainFileOf(tarOf([{ name: "a", type: "0", body: "" }]))).toHaveLength(0);
});

test("a header of extended facts before the file is stepped over", () => {
  const tar = tarOf([
    { name: "pax", type: "x", body: "30 mtime=1700000000.123456789\n" },
    { name: "global", type: "g", body: "x".repeat(513) },
    { name: "a", type: "0", body: "bytes" },
  ]);
  expect(plainFileOf(tar).toString()).toBe("bytes");
});

test("a link, a folder or a device in the place of the file is refused with its type", () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "file"), "the bytes that it points to");
  symlinkSync("file", join(directory, "link"));
  linkSync(join(directory, "file"), join(directory, "hard"));
  mkdirSync(join(directory, "folder"));
  expect(() => plainFileOf(archive(directory, "ustar", "link"))).toThrow(refusal(/tar type 2/));
  expect(() => plainFileOf(archive(directory, "posix", "folder"))).toThrow(refusal(/tar type 5/));
  for (const type of ["1", "2", "3", "4", "5", "6", "7", "L", "K", "S"])
    expect(() => plainFileOf(tarOf([{ name: "a", type, body: "" }]))).toThrow(
      refusal(new RegExp(`type ${type}`)),
    );
});

test("an archive that is empty, cut or has an unreadable size is refused", () => {
  const whole = tarOf([{ name: "a", type: "0", body: "bytes" }]);
  expect(() => plainFileOf(Buffer.alloc(0))).toThrow(refusal(/no file/));
  expect(() => plainFileOf(Buffer.alloc(1024))).toThrow(refusal(/size/));
  expect(() => plainFileOf(whole.subarray(0, 300))).toThrow(refusal(/no file/));
  expect(() => plainFileOf(whole.subarray(0, 514))).toThrow(refusal(/cut/));
  for (const size of ["", "-0000000001", "99999999999", "\x80\x00\x00\x00"]) {
    const header = tarHeader({ name: "a", type: "0", body: "" });
    header.fill(0, 124, 136).write(size, 124, "latin1");
    expect(() => plainFileOf(header), size).toThrow(expect.objectContaining({ code: "ENGINE_ERROR" }));
  }
});

test("extended facts that reach beyond the end, or never end, are refused", () => {
  const pax = tarOf([{ name: "pax", type: "x", body: "x" }], { end: false });
  expect(() => plainFileOf(pax)).toThrow(refusal(/no file/));
  expect(() => plainFileOf(Buffer.concat([pax, pax, pax]))).toThrow(refusal(/no file/));
});

test("more than one file is refused: what was measured would not be all that is there", () => {
  const two = tarOf([
    { name: "a", type: "0", body: "bytes" },
    { name: "b", type: "0", body: "others" },
  ]);
  expect(() => plainFileOf(two)).toThrow(refusal(/more than one/));
});
