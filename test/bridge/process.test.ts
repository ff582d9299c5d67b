import { randomInt, randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listSlot, readEntry, reapSlot } from "../../bridge/census.ts";
import { realClock } from "../../bridge/clock.ts";
import { type NativeProcess, processesLeft, runInSlot, startProcess } from "../../bridge/process.ts";
import { openSlot, type Slot } from "../../bridge/slots.ts";
import { DEFAULT_LIMITS } from "../../protocol/bridge-config.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { standIn } from "../support/stand-in.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { until, within } from "../support/until.ts";

const isRoot = process.getuid?.() === 0;
const PATH = "/usr/bin:/bin";

/** A slot without a user, or with one; it is emptied when the test is over. */
async function slotOf(kind: "mark" | "user"): Promise<Slot> {
  const directory = temporaryDirectory();
  for (const name of ["slots", "workspace"]) mkdirSync(join(directory, name));
  if (kind === "user") chmodSync(directory, 0o755);
  const slot = await openSlot(
    {
      storeId: "store-1",
      sandboxId: randomUUID(),
      isolation: kind === "user" ? "container" : "process",
      controllerSocket: "/none",
      modelSocket: "/none",
      tokenFile: "/none",
      stateDirectory: "/none",
      slotsDirectory: join(directory, "slots"),
      workspace: join(directory, "workspace"),
      users: kind === "user" ? { firstUid: randomInt(50_000, 60_000), gid: 50_000 } : null,
      clis: [],
      limits: DEFAULT_LIMITS,
    },
    "m-1",
  );
  onTestFinished(async () => {
    expect(await reapSlot(slot.mark, realClock, 10_000)).toEqual([]);
  });
  return slot;
}

function start(slot: Slot, command: readonly string[], environment: Record<string, string> = {}) {
  return startProcess({
    command,
    slot,
    environment: { PATH, ...environment },
    generation: 1,
    clock: realClock,
  });
}

async function firstLine(native: NativeProcess): Promise<string> {
  const [chunk] = await within("a line of the process", once(native.stdout, "data"));
  return String(chunk);
}

const nothing = async () => undefined;

test("a process runs in its slot, with the environment it was given and nothing of ours", async () => {
  const slot = await slotOf("mark");
  const native = await start(slot, ["/bin/sh", "-c", "pwd; umask; env; sleep 600"], { GIVEN: "yes" });
  let said = "";
  native.stdout.on("data", (chunk) => {
    said += String(chunk);
  });
  await within(
    "its environment",
    new Promise<void>((resolve) => {
      native.stdout.on("data", () => said.includes("HOLDFAST_SLOT") && said.includes("GIVEN") && resolve());
    }),
  );
  expect(said.split("\n").slice(0, 2)).toEqual([slot.workspace, "0002"]);
  expect(said).toContain(`HOLDFAST_SLOT=${slot.markValue}\n`);
  expect(said).not.toContain("HOLDFAST_TEST_RUN");
  expect(await native.stop(2000, nothing)).toEqual([]);
});

test.runIf(isRoot)("a process runs as its slot's user, without a group of ours", async () => {
  const slot = await slotOf("user");
  const native = await start(slot, ["/bin/sh", "-c", "id -u; id -G; sleep 600"]);
  let said = await firstLine(native);
  while (said.trim().split("\n").length < 2) said += await firstLine(native);
  expect(said).toBe(`${slot.user?.uid}\n${slot.user?.gid}\n`);
  expect(await native.stop(2000, nothing)).toEqual([]);
});

test("our own file mode mask is what it was", async () => {
  const before = process.umask();
  const native = await start(await slotOf("mark"), standIn("forever.ts"));
  expect(process.umask()).toBe(before);
  await native.stop(2000, nothing);
});

test("it is the leader of a process group of its own", async () => {
  const native = await start(await slotOf("mark"), standIn("forever.ts"));
  await firstLine(native);
  expect(process.kill(-native.pid, 0)).toBe(true);
  await native.stop(2000, nothing);
});

test("a graceful end comes first, and no signal follows it", async () => {
  const native = await start(await slotOf("mark"), ["/bin/sh", "-c", "read line; exit 3"]);
  const left = await native.stop(5000, async () => {
    native.stdin.write("end\n");
    await native.exited;
  });
  expect(left).toEqual([]);
  expect(await native.exited).toMatchObject({ code: 3, signal: null });
});

test("without a graceful end SIGTERM ends it", async () => {
  const native = await start(await slotOf("mark"), standIn("forever.ts"));
  await firstLine(native);
  expect(await native.stop(5000, nothing)).toEqual([]);
  expect(await native.exited).toMatchObject({ code: null, signal: "SIGTERM" });
  expect(native.hasExited()).toBe(true);
});

test("what ignores SIGTERM is ended by SIGKILL after the limit", async () => {
  const native = await start(await slotOf("mark"), standIn("ignores-sigterm.ts"));
  await firstLine(native);
  const said: string[] = [];
  native.stdout.on("data", (chunk) => said.push(String(chunk)));
  const startMs = performance.now();
  expect(await native.stop(200, nothing)).toEqual([]);
  expect(performance.now() - startMs).toBeGreaterThan(190);
  expect(said.join("")).toBe("SIGTERM\n");
  expect(await native.exited).toMatchObject({ signal: "SIGKILL" });
});

test("a graceful way that fails, or never ends, does not keep the signals away", async () => {
  for (const graceful of [() => Promise.reject(new Error("no")), () => new Promise<void>(() => undefined)]) {
    const native = await start(await slotOf("mark"), standIn("forever.ts"));
    await firstLine(native);
    expect(await native.stop(150, graceful)).toEqual([]);
    expect(await native.exited).toMatchObject({ signal: "SIGTERM" });
  }
});

test("the graceful way has the limit of the other steps, or a longer one of its own", async () => {
  for (const [gracefulMs, end] of [
    [undefined, { signal: "SIGTERM" }],
    [10_000, { code: 3 }],
  ] as const) {
    const native = await start(await slotOf("mark"), [
      "/bin/sh",
      "-c",
      "echo up; read line; sleep 0.5; exit 3",
    ]);
    await firstLine(native);
    const graceful = async () => {
      native.stdin.write("end\n");
      await native.exited;
    };
    expect(await native.stop(150, graceful, gracefulMs)).toEqual([]);
    expect(await native.exited).toMatchObject(end);
  }
});

for (const kind of ["mark", "user"] as const) {
  test.runIf(kind === "mark" || isRoot)(`children that escaped are ended too, found by ${kind}`, async () => {
    const slot = await slotOf(kind);
    const native = await start(slot, standIn("forks-and-escapes.ts"));
    const children: number[] = Object.values(JSON.parse(await firstLine(native)));
    expect(children).toHaveLength(3);
    for (const pid of children) expect(await readEntry(pid)).not.toBeNull();
    expect(await native.stop(5000, nothing)).toEqual([]);
    expect(await listSlot(slot.mark)).toEqual([]);
    for (const pid of children) expect((await readEntry(pid))?.state ?? "gone").toMatch(/gone|Z|X/);
  });

  test.runIf(kind === "mark" || isRoot)(
    `children that outlived their parent are ended by a stop, found by ${kind}`,
    async () => {
      const slot = await slotOf(kind);
      const native = await start(slot, standIn("holds-pipes-open.ts"));
      await within("its own exit", native.exited);
      expect(await listSlot(slot.mark)).toHaveLength(1);
      expect(await native.stop(5000, nothing)).toEqual([]);
      expect(await listSlot(slot.mark)).toEqual([]);
    },
  );
}

test("a start empties the slot first, and spares the slot beside it", async () => {
  const [slot, other] = [await slotOf("mark"), await slotOf("mark")];
  const earlier = await start(slot, standIn("ignores-sigterm.ts"));
  const neighbour = await start(other, standIn("forever.ts"));
  await Promise.all([firstLine(earlier), firstLine(neighbour)]);
  const later = await start(slot, standIn("forever.ts"));
  expect(await within("the earlier one's end", earlier.exited)).toMatchObject({ signal: "SIGKILL" });
  expect(neighbour.hasExited()).toBe(false);
  await Promise.all([later.stop(2000, nothing), neighbour.stop(2000, nothing)]);
});

test("an exit is reported while a child of it holds the pipes open", async () => {
  const native = await start(await slotOf("mark"), standIn("holds-pipes-open.ts"));
  expect(await within("its exit", native.exited, 5000)).toMatchObject({ code: 0 });
});

test("an exit at once with much still to be written to it is an exit, and no fault of ours", async () => {
  const native = await start(await slotOf("mark"), standIn("exits-at-once.ts"));
  native.stdin.write("x".repeat(8 * 1024 * 1024));
  const exit = await within("its exit", native.exited);
  expect(exit.code).toBe(7);
  expect(native.hasExited()).toBe(true);
  expect(await native.stop(1000, nothing)).toEqual([]);
});

test("the end of stderr is kept, and no more than its end", async () => {
  const noisy = "i=0; while [ $i -lt 2000 ]; do echo line-$i >&2; i=$((i + 1)); done; sleep 0.05; exit 1";
  const native = await start(await slotOf("mark"), ["/bin/sh", "-c", noisy]);
  const { stderrTail } = await within("its exit", native.exited);
  expect(stderrTail.length).toBeLessThanOrEqual(4000);
  expect(stderrTail).toContain("line-1999");
});

test("one that floods its stdout while nobody reads is still stopped", async () => {
  const native = await start(await slotOf("mark"), standIn("floods-stdout.ts"));
  await firstLine(native);
  native.stdout.pause();
  expect(await native.stop(3000, nothing)).toEqual([]);
});

test("a stop may be asked for twice, at once and later", async () => {
  const native = await start(await slotOf("mark"), standIn("forever.ts"));
  await firstLine(native);
  expect(await Promise.all([native.stop(2000, nothing), native.stop(2000, nothing)])).toEqual([[], []]);
  expect(await native.stop(2000, nothing)).toEqual([]);
});

test("a command that can't be started is an error that names it", async () => {
  const slot = await slotOf("mark");
  const plain = join(slot.home, "plain-file");
  writeFileSync(plain, "");
  for (const file of ["/nowhere/cli", plain]) {
    await expect(within("the refusal", start(slot, [file]))).rejects.toMatchObject({
      code: "CLI_NOT_READY",
      message: expect.stringContaining(file),
    });
  }
});

test("a start that the system refuses outright is the same error, and no wait without end", async () => {
  const slot = await slotOf("mark");
  // Each text fits, all of them together don't: the system call itself fails.
  const environment = Object.fromEntries(
    Array.from({ length: 80 }, (_, n) => [`V${n}`, "x".repeat(100_000)]),
  );
  await expect(within("the refusal", start(slot, standIn("forever.ts"), environment))).rejects.toMatchObject({
    code: "CLI_NOT_READY",
  });
});

test("one text beyond what a process can be given is refused by its name, before anything starts", async () => {
  const slot = await slotOf("mark");
  const huge = "x".repeat(200_000);
  const file = join(slot.home, "was-started");
  const starts = start(slot, ["/bin/sh", "-c", `touch ${file}; sleep 600`], { CONFIG: huge });
  await expect(starts).rejects.toMatchObject({
    code: "CLI_NOT_READY",
    message: expect.stringContaining("CONFIG"),
  });
  await expect(start(slot, ["/bin/echo", huge])).rejects.toThrow("argument 1");
  expect(existsSync(file)).toBe(false);
});

/** A short program in the slot, with generous bounds. */
function run(slot: Slot, script: string, over: Partial<Parameters<typeof runInSlot>[2]> = {}) {
  return runInSlot(slot, ["/bin/sh", "-c", script], {
    input: "",
    maxBytes: 10_000,
    limitMs: 10_000,
    ...over,
  });
}

test("a short program gets its input, and gives its code and what it said", async () => {
  const slot = await slotOf("mark");
  const result = await run(slot, "cat; echo why >&2; exit 3", { input: "Größe\n" });
  expect(result).toEqual({ code: 3, isLate: false, stdout: "Größe\n", stderr: "why\n" });
  const { stdout } = await run(slot, "pwd; env");
  expect(stdout).toContain(`HOLDFAST_SLOT=${slot.markValue}\n`);
  expect(stdout).not.toContain("HOLDFAST_TEST_RUN");
});

test.runIf(isRoot)("a short program runs as the slot's user", async () => {
  const slot = await slotOf("user");
  const { stdout } = await run(slot, "id -u; id -G");
  expect(stdout).toBe(`${slot.user?.uid}\n${slot.user?.gid}\n`);
});

test("a short program that goes on, or leaves a child that holds its pipes, is killed with it at the limit", async () => {
  for (const script of ["sleep 600", "sleep 600 & sleep 600", "sleep 600 & exit 0"]) {
    const slot = await slotOf("mark");
    const late = { code: null, isLate: true, stdout: "", stderr: "" };
    expect(await within("its end", run(slot, script, { limitMs: 300 }))).toEqual(late);
    await until("nobody is left", async () => (await listSlot(slot.mark)).length === 0);
  }
});

test("a short program that prints more than it may, or can't be started, has no code, and nothing is rejected", async () => {
  const slot = await slotOf("mark");
  const flood = await within("its end", run(slot, "while :; do echo 0123456789; done", { maxBytes: 5000 }));
  expect(flood).toMatchObject({ code: null, isLate: false });
  expect(flood.stdout.length).toBeLessThanOrEqual(5000);
  const options = { input: "x".repeat(1_000_000), maxBytes: 10, limitMs: 5000 };
  for (const file of ["/nowhere/cli", "with\0nul"]) {
    const nothingSaid = { code: null, isLate: false, stdout: "", stderr: "" };
    expect(await runInSlot(slot, [file], options)).toEqual(nothingSaid);
  }
});

test("a short program that ends before it has read its input has its own code", async () => {
  const slot = await slotOf("mark");
  expect(await run(slot, "exit 3", { input: "x".repeat(8_000_000) })).toMatchObject({
    code: 3,
    isLate: false,
  });
});

test("a command without a file is a mistake of the caller", async () => {
  await expect(start(await slotOf("mark"), [])).rejects.toThrow(TypeError);
});

test("processes that could not be ended are named in the error", () => {
  const left = Array.from({ length: 7 }, (_, n) => ({
    pid: 100 + n,
    parent: 1,
    startTicks: "1",
    state: "D",
    command: "stuck",
  }));
  const error = processesLeft(left);
  expect(error).toBeInstanceOf(HoldfastError);
  expect(error).toMatchObject({ code: "PROCESS_LEFT" });
  expect(error.message).toContain("7 processes");
  expect(error.message).toContain("100 (stuck)");
  expect(error.message).not.toContain("105");
});
