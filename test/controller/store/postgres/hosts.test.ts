// Several hosts in one store, on a real server: who has what, who may write what, who may take what over.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { openStore } from "../../../../controller/store/open-store.ts";
import type { Hosts } from "../../../../controller/store/postgres/hosts.ts";
import type { Store } from "../../../../controller/store/store.ts";
import { OPTIONS } from "../../../support/member-options.ts";
import { startPostgres } from "../../../support/postgres.ts";
import { AT } from "../../../support/samples.ts";

const DAY_MS = 24 * 3600 * 1000;
const server = await startPostgres({ isDurable: false });
afterAll(() => server.remove(), 60_000);
const MODULE = new URL("../../../../controller/store/open-store.ts", import.meta.url).href;

let count = 0;
const code = (name: string) => expect.objectContaining({ code: name });

interface Shared {
  schema: string;
  open(host: string, options?: { takeOver?: boolean }): { store: Store; hosts: Hosts };
  sql(statement: string): Promise<Array<Record<string, unknown>>>;
  /** As if the host had not been heard of for a minute. */
  silence(host: string): Promise<void>;
}

function shared(): Shared {
  count += 1;
  const schema = `h_${count}`;
  const sql = (statement: string) => server.look(statement, [], undefined, schema);
  return {
    schema,
    sql,
    open(host, options = {}) {
      const store = openStore({
        url: server.url(),
        schema,
        host,
        nowAt: () => AT,
        cliVersion: () => "1",
        ...options,
      });
      onTestFinished(() => store.close());
      if (store.hosts === null) throw new Error("a shared store has hosts");
      return { store, hosts: store.hosts };
    },
    async silence(host) {
      await sql(`UPDATE hosts SET alive_until = alive_until - 60000 WHERE id = '${host}'`);
    },
  };
}

function box(store: Store, id: string): void {
  store.createSandbox({ id, kind: "docker", directory: `/d/${id}` });
  store.createMember({ id: `${id}-m`, sandbox: id, cli: "opencode", options: OPTIONS });
}

test("law 12: each host lists its own sandboxes and reads all; what it writes to another's is refused, and changes nothing", () => {
  const { open } = shared();
  const [a, b] = [open("a"), open("b")];
  box(a.store, "box-a");
  box(b.store, "box-b");
  expect(a.store.sandboxes().map(({ id }) => id)).toEqual(["box-a"]);
  expect(b.store.sandboxes().map(({ id }) => id)).toEqual(["box-b"]);
  expect(b.store.member("box-a-m")?.sandbox).toBe("box-a");
  const fenced = code("FENCED");
  const turn = { id: "t-1", member: "box-a-m", textSha256: "ab", textBytes: 2 };
  expect(() => b.store.setWanted("box-a", "removed")).toThrow(fenced);
  expect(() => b.store.admit(turn)).toThrow(fenced);
  expect(() => b.store.createMember({ id: "m", sandbox: "box-a", cli: "pi", options: OPTIONS })).toThrow(
    fenced,
  );
  expect(() => b.store.setMemberOptions("box-a-m", OPTIONS)).toThrow(fenced);
  expect(() => b.store.calls.budgets.set("box-a-m", 5)).toThrow(fenced);
  expect(() => b.store.apply("box-a", [])).toThrow(fenced);
  expect(b.store.turn("t-1")).toBeNull();
  expect(() => b.store.admit({ ...turn, member: "nobody" })).toThrow(code("MEMBER_UNKNOWN"));
  a.store.admit(turn);
  expect(() => b.store.noteLaunch("t-1", Buffer.from("{}"), 0)).toThrow(fenced);
  expect(a.store.sandbox("box-a")?.wanted).toBe("stopped");
});

test("law 12: a sandbox's fence rises with every controller of its host, and the earlier one writes nothing", () => {
  const { open } = shared();
  const first = open("a");
  box(first.store, "box");
  const before = first.store.fenceOf("box");
  const second = open("a", { takeOver: true });
  expect(second.store.fenceOf("box")).toBeGreaterThan(before);
  expect(() => first.store.setWanted("box", "running")).toThrow(code("FENCED"));
  second.store.setWanted("box", "running");
});

test("any controller says where a sandbox lives", () => {
  const { open } = shared();
  const [a, b] = [open("a"), open("b")];
  box(a.store, "box");
  expect(b.hosts.placement("box")).toEqual({
    sandbox: "box",
    host: "a",
    fence: a.store.fenceOf("box"),
    released_to: null,
  });
  expect(b.hosts.placement("none")).toBeNull();
});

test("a host is listed with its sandboxes, and is alive for as long as its last renewal grants, by the server's clock", async () => {
  const { open, silence } = shared();
  const { store, hosts } = open("a");
  box(store, "box");
  expect(hosts.renew()).toBe("active");
  const [row] = hosts.list();
  expect(row).toMatchObject({
    id: "a",
    state: "active",
    sandboxes: 1,
    is_alive: true,
    ended_at: null,
  });
  expect((row?.alive_until ?? 0) - (row?.beat_at ?? 0)).toBeCloseTo(15_000, -2);
  store.checkOwned();
  await silence("a");
  expect(hosts.get("a").is_alive).toBe(false);
  expect(() => store.checkOwned()).toThrow(code("LEASE_LOST"));
  hosts.renew();
  store.checkOwned();
  expect(() => hosts.get("b")).toThrow(code("HOST_UNKNOWN"));
});

test("a host that was heard of in time is not removed; a silent one is, for ever, and its controller is fenced off", async () => {
  const { open, silence } = shared();
  const [a, b] = [open("a"), open("b")];
  box(a.store, "box");
  expect(() => b.hosts.move("a", "removed")).toThrow(code("HOST_ALIVE"));
  a.store.setWanted("box", "running");
  await silence("a");
  b.hosts.move("a", "removed");
  expect(() => a.hosts.renew()).toThrow(code("FENCED"));
  expect(() => a.store.setWanted("box", "stopped")).toThrow(code("FENCED"));
  expect(() => a.store.checkOwned()).toThrow(code("FENCED"));
  expect(() => b.hosts.move("a", "active")).toThrow(code("HOST_ENDED"));
  a.store.close();
  expect(() => open("a")).toThrow(code("HOST_ENDED"));
});

test("one that drains stays so over a restart of its controller; one that moved out is active again when it opens", () => {
  const { open } = shared();
  const first = open("a");
  first.hosts.move("a", "draining");
  first.store.close();
  const second = open("a");
  expect(second.hosts.renew()).toBe("draining");
  second.hosts.move("a", "moved_out");
  expect(second.hosts.get("a").ended_at).not.toBeNull();
  second.store.close();
  const third = open("a");
  expect(third.hosts.get("a")).toMatchObject({ state: "active", ended_at: null });
});

test("A8: a sandbox is claimed behind its host's removal, with a higher fence; its old host finds that out", async () => {
  const { open, silence } = shared();
  const [a, b] = [open("a"), open("b")];
  box(a.store, "box");
  const { fence } = a.hosts.placement("box") ?? { fence: 0 };
  const claim = () => b.hosts.claim("box", fence, DAY_MS, () => undefined);
  expect(claim).toThrow(code("HOST_ALIVE"));
  await silence("a");
  expect(claim).toThrow(code("HOST_ALIVE"));
  b.hosts.move("a", "removed");
  expect(claim()).toBeGreaterThan(fence);
  expect(b.store.sandboxes().map(({ id }) => id)).toEqual(["box"]);
  b.store.setWanted("box", "running");
  expect(() => a.store.setWanted("box", "stopped")).toThrow(code("FENCED"));
});

test("A8: a claim behind the end of the lease is refused, and so is one whose step fails: nothing has moved then", async () => {
  const { open, sql, silence } = shared();
  const [a, b] = [open("a"), open("b")];
  box(a.store, "box");
  await silence("a");
  b.hosts.move("a", "removed");
  const { fence } = a.hosts.placement("box") ?? { fence: 0 };
  const fail = () => {
    throw new TypeError("no");
  };
  expect(() => b.hosts.claim("box", fence, DAY_MS, fail)).toThrow(TypeError);
  expect(b.hosts.placement("box")).toMatchObject({ host: "a", fence });
  expect(() => b.store.setWanted("box", "running")).toThrow(code("FENCED"));
  await sql(`UPDATE hosts SET ended_at = ended_at - ${2 * DAY_MS} WHERE id = 'a'`);
  expect(() => b.hosts.claim("box", fence, DAY_MS, () => undefined)).toThrow(code("LEASE_ENDED"));
});

test("a sandbox that was let go of for a host is that one's to take, and nobody drives it meanwhile", () => {
  const { open } = shared();
  const [a, b, c] = [open("a"), open("b"), open("c")];
  box(a.store, "box");
  expect(() => a.hosts.release("box", "d")).toThrow(code("HOST_UNKNOWN"));
  expect(() => a.hosts.release("box", "a")).toThrow(code("REQUEST_INVALID"));
  a.hosts.release("box", "b");
  expect(() => a.store.setWanted("box", "running")).toThrow(code("FENCED"));
  expect(a.store.sandboxes()).toEqual([]);
  const { fence } = a.hosts.placement("box") ?? { fence: 0 };
  expect(() => c.hosts.claim("box", fence, DAY_MS, () => undefined)).toThrow(code("FENCED"));
  b.hosts.claim("box", fence, DAY_MS, () => undefined);
  b.store.setWanted("box", "running");
});

test("A8: of hosts that race for a sandbox exactly one gets it, and the others are told so", async () => {
  const { open, schema, silence } = shared();
  const a = open("a");
  box(a.store, "box");
  const { fence } = a.hosts.placement("box") ?? { fence: 0 };
  const judge = open("judge");
  await silence("a");
  judge.hosts.move("a", "removed");
  const racer = (host: string) => {
    const program = `import { openStore } from ${JSON.stringify(MODULE)};
      const store = openStore({ url: process.env.STORE, schema: "${schema}", host: "${host}", nowAt: Date.now, cliVersion: () => "1" });
      console.log("ready");
      process.stdin.once("data", () => {
        try { store.hosts.claim("box", ${fence}, 1e9, () => undefined); store.setWanted("box", "running"); console.log("won"); }
        catch (error) { console.log(error.code); }
        store.close();
        process.exit();
      });`;
    return spawn(process.execPath, ["--input-type=module", "-e", program], {
      env: { ...process.env, STORE: server.url() },
      stdio: ["pipe", "pipe", "inherit"],
    });
  };
  const racers = ["r1", "r2", "r3", "r4"].map(racer);
  const ends = racers.map((child) => text(child.stdout));
  await Promise.all(racers.map((child) => once(child.stdout, "readable")));
  for (const child of racers) child.stdin.end("go");
  const said = (await Promise.all(ends)).map((each) => each.trim().split("\n").at(-1)).sort();
  expect(said).toEqual(["FENCED", "FENCED", "FENCED", "won"]);
}, 60_000);
