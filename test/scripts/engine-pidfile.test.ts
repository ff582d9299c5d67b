import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { judgePidFile, parseProcessStat, processOf, settlePidFile } from "../../scripts/engine-pidfile.ts";

const nobody = (): undefined => undefined;

test("only a live process of the daemon's own name keeps its pid file", () => {
  expect(judgePidFile("42\n", "dockerd", () => ({ name: "dockerd", state: "S" }))).toBe("live");
  expect(judgePidFile("42", "dockerd", () => ({ name: "dockerd", state: "Z" }))).toBe("stale");
  expect(judgePidFile("42", "dockerd", () => ({ name: "dockerd", state: "X" }))).toBe("stale");
  expect(judgePidFile("42", "dockerd", () => ({ name: "bash", state: "R" }))).toBe("stale");
  expect(judgePidFile("42", "dockerd", nobody)).toBe("stale");
  expect(judgePidFile(undefined, "dockerd", nobody)).toBe("absent");
});

test.each(["", "0", "-1", "1.5", "12 13", "x", "99999999999"])(
  "a pid file that holds %o is stale",
  (content) => {
    const lookUp = (): never => {
      throw new Error("nothing to look up");
    };
    expect(judgePidFile(content, "dockerd", lookUp)).toBe("stale");
  },
);

test.each([
  ["12 (dockerd) S 1 12", { name: "dockerd", state: "S" }],
  ["12 (a) b) (c) Z 1 12", { name: "a) b) (c", state: "Z" }],
  ["12 (cut", undefined],
  ["", undefined],
])("a process line is read whatever the name holds (%#)", (line, expected) => {
  expect(parseProcessStat(line)).toEqual(expected);
});

test("the kernel's own answer about this process and about none", () => {
  expect(processOf(process.pid)?.state).toMatch(/^[RS]$/);
  expect(processOf(2 ** 31 - 1)).toBeUndefined();
});

test("a stale file is removed, a live one and its pid are kept", () => {
  const folder = mkdtempSync(join(tmpdir(), "hf-pid-"));
  try {
    const path = join(folder, "dockerd.pid");
    writeFileSync(path, String(process.pid));
    const own = processOf(process.pid)?.name ?? "";
    expect(settlePidFile(path, own)).toBe(process.pid);
    expect(settlePidFile(path, "dockerd")).toBeUndefined();
    expect(existsSync(path)).toBe(false);
    expect(settlePidFile(path, "dockerd")).toBeUndefined();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
