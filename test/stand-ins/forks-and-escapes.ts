// Starts children that no signal to its process group reaches, prints their numbers as JSON, and stays.
//   setsid: a child in a session of its own · orphan: forked twice, so nobody's child · bare: without any environment
import { execFileSync, spawn } from "node:child_process";

const away = { detached: true, stdio: "ignore" } as const;
const setsid = spawn("sleep", ["600"], away).pid;
const bare = spawn("/bin/sleep", ["600"], { ...away, env: {} }).pid;
const orphan = Number(
  execFileSync("/bin/sh", ["-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"], { encoding: "utf8" }),
);
process.stdout.write(`${JSON.stringify({ setsid, orphan, bare })}\n`);
setInterval(() => undefined, 60_000);
