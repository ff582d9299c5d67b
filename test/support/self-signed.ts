// A certificate that nobody vouches for, made for one test.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "./temporary-directory.ts";

const OPENSSL = "openssl";

export function selfSigned(): { key: Buffer; cert: Buffer } {
  const directory = temporaryDirectory();
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"];
  const names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
  const made = spawnSync(OPENSSL, ["req", "-x509", ...options, ...names, "-keyout", key, "-out", cert]);
  if (made.status !== 0) throw new Error(`openssl: ${made.stderr.toString()}`);
  return { key: readFileSync(key), cert: readFileSync(cert) };
}
