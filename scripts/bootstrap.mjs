import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const stamp = join(modules, ".holdfast-installed");
const link = join(modules, ".bin", "node");
const runtime = `node-${process.platform}-${process.arch}`;
const wanted = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).optionalDependencies[runtime];
const key = [
  createHash("sha256").update(readFileSync(join(root, "package-lock.json"))).digest("hex"),
  process.platform,
  process.arch,
].join(" ");

function fail(message) {
  console.error(`holdfast: ${message}`);
  process.exit(1);
}

function linkedVersion() {
  const probe = spawnSync(link, ["--version"], { encoding: "utf8" });
  return probe.status === 0 ? probe.stdout.trim() : undefined;
}

const fresh =
  existsSync(stamp) && readFileSync(stamp, "utf8") === key && (!wanted || linkedVersion() === `v${wanted}`);
if (!fresh) {
  const cli = process.env.npm_execpath;
  if (!cli) fail("start this through npm (npm start, npm test)");
  console.error("holdfast: installing the locked packages (first run or changed lock file)");
  const path = process.env.PATH.split(delimiter).filter((entry) => !entry.endsWith(join("node_modules", ".bin")));
  const install = spawnSync(
    process.env.npm_node_execpath ?? process.execPath,
    [cli, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
    { cwd: root, stdio: "inherit", env: { ...process.env, PATH: path.join(delimiter) } },
  );
  if (install.status !== 0) fail("npm ci failed");
  if (wanted) {
    const binary = join(modules, runtime, "bin", "node");
    if (!existsSync(binary)) fail(`npm did not deliver ${runtime}@${wanted}; check the registry and run again`);
    mkdirSync(join(modules, ".bin"), { recursive: true });
    rmSync(link, { force: true });
    symlinkSync(join("..", runtime, "bin", "node"), link);
    if (linkedVersion() !== `v${wanted}`) fail(`${runtime}@${wanted} does not run on this machine`);
  } else if (Number(process.versions.node.split(".")[0]) < 24) {
    fail(`no packaged Node for ${process.platform}-${process.arch}: install Node 24 yourself`);
  }
  writeFileSync(stamp, key);
}
