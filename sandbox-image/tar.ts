// Writes tar bytes for what the engine wants to be sent, and reads the one file that it sends back. Entries are given
// by hand (owner, mode, link), so a build doesn't depend on how files lie on the host. Walks no folder.

import { createReadStream, statSync } from "node:fs";
import { basename } from "node:path";

const BLOCK_BYTES = 512;
const NAME_BYTES = 100;
/** Eleven octal digits. */
const MAX_SIZE_BYTES = 8 ** 11 - 1;

export type TarEntry = { path: string; mode: number; uid?: number; gid?: number } & (
  | { kind: "folder" }
  | { kind: "link"; target: string }
  | { kind: "bytes"; bytes: Buffer }
  | { kind: "file"; source: string }
);

/** A whole archive; `isOpen` leaves out the end mark, so that another archive can follow. */
export async function* tarStream(entries: readonly TarEntry[], isOpen = false): AsyncGenerator<Buffer> {
  for (const entry of entries) {
    const size = sizeOf(entry);
    yield tarHeader(entry, size);
    if (entry.kind === "bytes") {
      yield entry.bytes;
    } else if (entry.kind === "file") {
      let sent = 0;
      for await (const chunk of createReadStream(entry.source, {
        highWaterMark: 1 << 20,
      }) as AsyncIterable<Buffer>) {
        sent += chunk.length;
        yield chunk;
      }
      if (sent !== size) throw new Error(`${entry.source} changed while it was read`);
    }
    const rest = size % BLOCK_BYTES;
    if (rest !== 0) yield Buffer.alloc(BLOCK_BYTES - rest);
  }
  if (!isOpen) yield Buffer.alloc(2 * BLOCK_BYTES);
}

/** The header of one entry; a name or target above 100 bytes gets GNU's long-name entry before it. */
export function tarHeader(entry: TarEntry, sizeBytes: number): Buffer {
  if (sizeBytes > MAX_SIZE_BYTES) throw new TypeError(`too large for this tar format: ${entry.path}`);
  const name = entry.kind === "folder" ? `${entry.path.replace(/\/+$/, "")}/` : entry.path;
  const target = entry.kind === "link" ? entry.target : "";
  const type = entry.kind === "folder" ? "5" : entry.kind === "link" ? "2" : "0";
  return Buffer.concat([
    ...longName("L", name),
    ...longName("K", target),
    block({ name, target, type, mode: entry.mode, uid: entry.uid ?? 0, gid: entry.gid ?? 0, sizeBytes }),
  ]);
}

/** The bytes of the first plain file in an archive of the engine. A link or anything else there is refused. */
export function onlyFileOf(archive: Buffer, path: string): { bytes: Buffer; mode: number } {
  let offset = 0;
  for (;;) {
    const header = archive.subarray(offset, offset + BLOCK_BYTES);
    if (header.length < BLOCK_BYTES || header[0] === 0) throw new Error(`no file in the answer for ${path}`);
    const type = String.fromCharCode(header[156] ?? 0);
    const size = readOctal(header, 124, 12);
    const start = offset + BLOCK_BYTES;
    // Extended headers (times, long names) come before the file that they speak of.
    if (type === "x" || type === "g" || type === "L" || type === "K") {
      offset = start + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
      continue;
    }
    if (type !== "0" && type !== "\0") throw new Error(`${path} is no plain file (tar type ${type})`);
    const name = header.subarray(0, NAME_BYTES).toString("utf8").replace(/\0.*$/s, "");
    if (basename(name) !== basename(path)) throw new Error(`asked for ${path}, got ${name}`);
    const bytes = archive.subarray(start, start + size);
    if (bytes.length !== size) throw new Error(`the answer for ${path} is cut short`);
    return { bytes, mode: readOctal(header, 100, 8) & 0o7777 };
  }
}

function sizeOf(entry: TarEntry): number {
  if (entry.kind === "bytes") return entry.bytes.length;
  return entry.kind === "file" ? statSync(entry.source).size : 0;
}

function longName(type: "L" | "K", text: string): Buffer[] {
  const bytes = Buffer.from(`${text}\0`);
  if (bytes.length - 1 <= NAME_BYTES) return [];
  const padding = Buffer.alloc((BLOCK_BYTES - (bytes.length % BLOCK_BYTES)) % BLOCK_BYTES);
  const header = {
    name: "././@LongLink",
    target: "",
    type,
    mode: 0o644,
    uid: 0,
    gid: 0,
    sizeBytes: bytes.length,
  };
  return [block(header), bytes, padding];
}

function block(header: {
  name: string;
  target: string;
  type: string;
  mode: number;
  uid: number;
  gid: number;
  sizeBytes: number;
}): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES);
  Buffer.from(header.name).copy(bytes, 0, 0, NAME_BYTES);
  writeOctal(bytes, header.mode, 100, 8);
  writeOctal(bytes, header.uid, 108, 8);
  writeOctal(bytes, header.gid, 116, 8);
  writeOctal(bytes, header.sizeBytes, 124, 12);
  // A fixed time: the same content is the same archive.
  writeOctal(bytes, 0, 136, 12);
  bytes.write(header.type, 156, "latin1");
  Buffer.from(header.target).copy(bytes, 157, 0, NAME_BYTES);
  // GNU's magic, since its long names are used.
  bytes.write("ustar  \0", 257, "latin1");
  bytes.fill(" ", 148, 156);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return bytes;
}

function writeOctal(bytes: Buffer, value: number, offset: number, width: number): void {
  bytes.write(`${value.toString(8).padStart(width - 1, "0")}\0`, offset, "latin1");
}

function readOctal(bytes: Buffer, offset: number, width: number): number {
  const text = bytes.toString("latin1", offset, offset + width).replace(/[\0 ].*$/s, "");
  if (!/^[0-7]*$/.test(text)) throw new Error("not an octal number in a tar header");
  return Number.parseInt(text || "0", 8);
}
