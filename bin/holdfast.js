#!/usr/bin/env node
// The command `holdfast`: picks source (checkout) or dist (package), and a Node that can run it. Decides nothing else.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const at = (path) => new URL(path, import.meta.url);
const entry = [at("../controller/cli/main.ts"), at("../dist/holdfast.js")].find((url) => existsSync(url));
const bundledNode = fileURLToPath(at("../node_modules/.bin/node"));
const isCheckout = entry?.pathname.endsWith(".ts") ?? false;

if (!entry) {
  refuse("its program files are missing; install the package again");
} else if (isCheckout && !existsSync(at("../node_modules/.holdfast-installed"))) {
  refuse(
    "its packages are not installed; run `npm start` (or `npm run bootstrap`) in the source checkout once",
  );
} else if (Number(process.versions.node.split(".")[0]) >= 24) {
  await import(entry.href);
} else if (existsSync(bundledNode)) {
  handOver(bundledNode);
} else {
  refuse(`it needs Node 24, and this is ${process.versions.node}`);
}

/** Runs this same file on the Node 24 beside us, passes signals on, and ends as it ends. */
function handOver(node) {
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: "inherit" });
  for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR2"]) process.on(signal, () => child.kill(signal));
  // A terminal sends its Ctrl-C to the whole group: passed on, the child would see it twice.
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  child.on("error", (error) =>
    refuse(`${node} does not start (${error.message}); run \`npm run bootstrap\``),
  );
  child.on("close", (code, signal) => {
    process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0);
  });
}

function refuse(reason) {
  process.stderr.write(`holdfast cannot start: ${reason}\n`);
  process.exitCode = 1;
}
