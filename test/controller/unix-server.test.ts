import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { closeServer, listenOn } from "../../controller/unix-server.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { within } from "../support/until.ts";

async function listen(path: string, mode = 0o600) {
  const server = await listenOn(path, mode);
  onTestFinished(() => closeServer(server));
  server.on("request", (_, response) => response.end("here"));
  return server;
}

function get(socketPath: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path: "/", agent: false }, (response) => {
      response.setEncoding("utf8");
      let text = "";
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => resolve(text));
    });
    call.once("error", reject);
    call.end();
  });
}

test("it listens on the path, with the mode that was asked for", async () => {
  const directory = temporaryDirectory();
  await listen(join(directory, "a.sock"), 0o600);
  await listen(join(directory, "b.sock"), 0o660);
  expect(statSync(join(directory, "a.sock")).mode & 0o777).toBe(0o600);
  expect(statSync(join(directory, "b.sock")).mode & 0o777).toBe(0o660);
  expect(await get(join(directory, "a.sock"))).toBe("here");
});

test("a path on which somebody answers is refused, and that one goes on", async () => {
  const path = join(temporaryDirectory(), "a.sock");
  await listen(path);
  await expect(listenOn(path, 0o600)).rejects.toMatchObject({ code: "STORE_OWNED" });
  expect(await get(path)).toBe("here");
});

test("the socket of a killed process is taken over", async () => {
  const path = join(temporaryDirectory(), "a.sock");
  const program = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  expect(spawnSync(process.execPath, ["-e", program]).signal).toBe("SIGKILL");
  expect(existsSync(path)).toBe(true);
  await listen(path);
  expect(await get(path)).toBe("here");
});

test("a plain file at the path gives way, a missing folder is an error that names the path", async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "a.sock"), "left over");
  await listen(join(directory, "a.sock"));
  const missing = join(directory, "none", "a.sock");
  const refused = listenOn(missing, 0o600);
  await expect(refused).rejects.toMatchObject({ code: "STORE_ERROR" });
  await expect(refused).rejects.toThrow(missing);
});

test("closing ends connections that idle, and takes the socket away", async () => {
  const path = join(temporaryDirectory(), "a.sock");
  const server = await listenOn(path, 0o600);
  const idle = connect(path);
  const ended = new Promise<void>((resolve) => idle.once("close", () => resolve()));
  await new Promise<void>((resolve) => idle.once("connect", () => resolve()));
  idle.resume();
  await within("the close", closeServer(server));
  await within("the idle connection's end", ended);
  expect(existsSync(path)).toBe(false);
});

test("one who dials at the first moment is answered: nobody gets in before the server's owner", async () => {
  for (let round = 0; round < 30; round += 1) {
    const path = join(temporaryDirectory(), "a.sock");
    const opening = listen(path);
    while (!existsSync(path)) await new Promise((resolve) => setImmediate(resolve));
    const [answer] = await within("the answer", Promise.all([get(path), opening]), 3000);
    expect(answer).toBe("here");
  }
});

test("told to, it takes the path over: new connections are its own, and the other's close leaves its socket alone", async () => {
  const path = join(temporaryDirectory(), "a.sock");
  const old = await listenOn(path, 0o600);
  old.on("request", (_, response) => response.end("old"));
  expect(await get(path)).toBe("old");
  const next = await listenOn(path, 0o600, { takeOver: true });
  onTestFinished(() => closeServer(next));
  next.on("request", (_, response) => response.end("next"));
  expect(await get(path)).toBe("next");
  await closeServer(old);
  expect(existsSync(path)).toBe(true);
  expect(await get(path)).toBe("next");
});

test("only the path itself is left behind while it listens, and nothing when it could not", async () => {
  const directory = temporaryDirectory();
  await listen(join(directory, "a.sock"));
  expect(readdirSync(directory)).toEqual(["a.sock"]);
  mkdirSync(join(directory, "b.sock", "full"), { recursive: true });
  await expect(listenOn(join(directory, "b.sock"), 0o600)).rejects.toMatchObject({ code: "STORE_ERROR" });
  expect(readdirSync(directory)).toEqual(["a.sock", "b.sock"]);
});
