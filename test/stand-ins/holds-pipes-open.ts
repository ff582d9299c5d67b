// Ends at once, but leaves a child that keeps stdin, stdout and stderr open.
import { spawn } from "node:child_process";

spawn("sleep", ["600"], { stdio: "inherit" }).unref();
