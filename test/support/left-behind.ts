// Processes that have anything to do with a folder: by their words, their folder or their environment. Linux only.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export function processesOf(folder: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const words = read(() => readFileSync(`/proc/${pid}/cmdline`, "utf8"));
      const texts = [
        words,
        read(() => readlinkSync(`/proc/${pid}/cwd`)),
        read(() => readFileSync(`/proc/${pid}/environ`, "utf8")),
      ];
      return texts.some((text) => text.includes(folder))
        ? [`${pid} ${words.replaceAll("\0", " ").slice(0, 200)}`]
        : [];
    });
}

/** "" for a process that is gone, or another user's. */
function read(look: () => string): string {
  try {
    return look();
  } catch (error) {
    if (error instanceof Error && "code" in error && /^(ENOENT|ESRCH|EACCES|EPERM)$/.test(String(error.code)))
      return "";
    throw error;
  }
}
