// Archives byte by byte, for what no tar program would write.

export interface TarEntry {
  name: string;
  /** One character: "0" a file, "2" a symbolic link, "5" a folder, "x" extended facts of the next entry. */
  type: string;
  body: string | Buffer;
  linkTo?: string;
}

export function tarHeader(entry: TarEntry): Buffer {
  const header = Buffer.alloc(512);
  const size = Buffer.byteLength(entry.body);
  header.write(entry.name, 0);
  header.write("0000644\0", 100);
  header.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  header.write(entry.type, 156);
  header.write(entry.linkTo ?? "", 157);
  header.write("ustar\x0000", 257);
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

export function tarOf(entries: readonly TarEntry[], { end = true } = {}): Buffer {
  const blocks = entries.flatMap((entry) => {
    const body = Buffer.from(entry.body);
    return [tarHeader(entry), body, Buffer.alloc((512 - (body.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, ...(end ? [Buffer.alloc(1024)] : [])]);
}
