import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { type OwnerLock, takeOwnerLock } from "../../../controller/store/owner-lock.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { within } from "../../support/until.ts";

const lockModule = fileURLToPath(new URL("../../../controller/store/owner-lock.ts", import.meta.url));

function take(path: string): OwnerLock {
  const lock = takeOwnerLock(path);
  onTestFinished(() => lock.release());
  return lock;
}

/** A process that takes the lock and keeps it until it is ended; resolves when it says how that went. */
async function otherProcess(path: string) {
  const program = `
    import { takeOwnerLock } from ${JSON.stringify(lockModule)};
    try {
      takeOwnerLock(process.argv[1]);
      console.log("held");
      setInterval(() => undefined, 60_000);
    } catch (error) {
      console.log(error.code);
    }`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program, path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await gone;
  });
  const [said] = await within("the other process", once(child.stdout, "data"));
  return {
    said: String(said).trim(),
    async kill() {
      child.kill("SIGKILL");
      await within("the end of the other process", gone);
    },
  };
}

test("a second owner in the same process is refused until the first lets go", () => {
  const path = join(temporaryDirectory(), "owner.db");
  const first = takeOwnerLock(path);
  expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  first.release();
  take(path);
});

test("an owner keeps the lock although another was refused", () => {
  const path = join(temporaryDirectory(), "owner.db");
  take(path);
  for (let i = 0; i < 3; i += 1)
    expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
});

test("another process is refused while this one owns the store", async () => {
  const path = join(temporaryDirectory(), "owner.db");
  take(path);
  expect((await otherProcess(path)).said).toBe("STORE_OWNED");
});

test("this process is refused while another one owns it, and a killed owner's lock is free at once", async () => {
  const path = join(temporaryDirectory(), "owner.db");
  const owner = await otherProcess(path);
  expect(owner.said).toBe("held");
  expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  await owner.kill();
  take(path);
});

test("nobody else may open the lock's file: a reader could hold the owner off", () => {
  const path = join(temporaryDirectory(), "owner.db");
  take(path);
  expect(statSync(path).mode & 0o777).toBe(0o600);
});

test("a lock that can't be made for another reason is an error of the store, not an owner", () => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "owner.db"));
  expect(() => takeOwnerLock(join(directory, "owner.db"))).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
  writeFileSync(
    join(directory, "text.db"),
    "this is no database, and long enough to be looked at. ".repeat(40),
  );
  chmodSync(join(directory, "text.db"), 0o600);
  expect(() => takeOwnerLock(join(directory, "text.db"))).toThrow(
    expect.objectContaining({ code: "STORE_ERROR" }),
  );
});

test("told to, it takes the lock of a process that hangs; others are refused by the new owner, not by the old one's end", async () => {
  const path = join(temporaryDirectory(), "owner.db");
  const other = await otherProcess(path);
  expect(other.said).toBe("held");
  const lock = takeOwnerLock(path, { takeOver: true });
  onTestFinished(() => lock.release());
  expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  await other.kill();
  expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  lock.release();
  take(path);
});

test("in the same process the old owner's release does not let go of the new one's lock", () => {
  const path = join(temporaryDirectory(), "owner.db");
  const old = takeOwnerLock(path);
  const lock = takeOwnerLock(path, { takeOver: true });
  old.release();
  expect(() => takeOwnerLock(path)).toThrow(expect.objectContaining({ code: "STORE_OWNED" }));
  lock.release();
  take(path);
});

test("a lock that nobody holds is taken as ever", () => {
  const path = join(temporaryDirectory(), "owner.db");
  takeOwnerLock(path, { takeOver: true }).release();
  take(path);
});
