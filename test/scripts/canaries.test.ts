// The eyes of the container tests: what they would not see, nobody would.
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { tarStream } from "../../sandbox-image/tar.ts";
import { canariesIn, canary, filesWithCanaries, plainOnly, Watch } from "../support/canaries.ts";

const SECRET = "a-secret/with+characters that=count";
const canaries = [canary("one", SECRET), canary("other", "something-else-entirely")];

test("a secret is found as it is, in hex, in a URL, and in Base64 wherever it stands in the text", () => {
  const hidden = [
    `x${SECRET}y`,
    Buffer.from(SECRET).toString("hex"),
    `?key=${encodeURIComponent(SECRET)}&`,
    ...["", "u", "us", "user:", "other user:"].flatMap((before) =>
      ["", "!", "!!"].flatMap((behind) => {
        const bytes = Buffer.from(before + SECRET + behind);
        return [bytes.toString("base64"), bytes.toString("base64url")];
      }),
    ),
  ];
  for (const text of hidden) expect(canariesIn(`before ${text} behind`, canaries), text).toEqual(["one"]);
  expect(canariesIn("nothing of it", canaries)).toEqual([]);
  expect(canariesIn(Buffer.from(SECRET).toString("hex"), plainOnly(canaries))).toEqual([]);
});

test("one that is too short to be told from chance is refused", () => {
  expect(() => canary("short", "abc")).toThrow(TypeError);
});

test("pieces are looked at as one text, wherever they are cut", () => {
  const text = Buffer.from(`some text ${SECRET} and more of it`);
  for (let cut = 0; cut <= text.length; cut += 1) {
    const watch = new Watch(canaries);
    for (const piece of [text.subarray(0, cut), text.subarray(cut)]) watch.see(piece);
    expect([...watch.found]).toEqual(["one"]);
  }
});

test("files of an archive are found by path, mode and owner, with long names, in any cut", async () => {
  const long = `${"folder/".repeat(20)}file`;
  const bytes = (text: string) => Buffer.from(text);
  const chunks: Buffer[] = [];
  for await (const piece of tarStream([
    { kind: "folder", path: "home", mode: 0o755 },
    { kind: "bytes", path: "home/clean", mode: 0o644, bytes: bytes("nothing") },
    { kind: "bytes", path: "home/bad", mode: 0o600, uid: 20_001, bytes: bytes(`x${SECRET}`) },
    { kind: "bytes", path: long, mode: 0o640, bytes: bytes(SECRET.repeat(100)) },
    { kind: "bytes", path: "usr/skipped", mode: 0o644, bytes: bytes(SECRET) },
    { kind: "link", path: "home/link", mode: 0o777, target: "/etc" },
  ]))
    chunks.push(piece);
  const tar = Buffer.concat(chunks);
  const found = [
    { path: "home/bad", mode: 0o600, uid: 20_001, canaries: ["one"] },
    { path: long, mode: 0o640, uid: 0, canaries: ["one"] },
  ];
  for (const size of [100, 512, 700, tar.length]) {
    const pieces = Array.from({ length: Math.ceil(tar.length / size) }, (_, at) =>
      tar.subarray(at * size, (at + 1) * size),
    );
    expect(
      await filesWithCanaries(Readable.from(pieces), canaries, (path) => path.startsWith("usr/")),
    ).toEqual(found);
  }
  await expect(filesWithCanaries(Readable.from([tar.subarray(0, 1600)]), canaries)).rejects.toThrow("cut");
});
