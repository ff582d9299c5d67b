// A directory that lives as long as its test.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Short, since the path of a Unix socket in it may have 107 bytes. */
export function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), "hf-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
