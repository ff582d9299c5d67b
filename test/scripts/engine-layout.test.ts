import { expect, test } from "vitest";
import { containerdArguments, dockerdArguments, engineLayout } from "../../scripts/engine-layout.ts";
import { installObstacle } from "../../scripts/packages-install.ts";

test("every engine keeps its containers over a restart and has a containerd of its own making", () => {
  for (const root of [undefined, "/tmp/e"]) {
    const args = dockerdArguments(engineLayout(root), "/c.sock", true);
    expect(args).toContain("--live-restore");
    expect(args.join(" ")).toContain("--containerd /c.sock");
  }
});

test("an engine with a root of its own shares no place with the usual one", () => {
  const layout = engineLayout("/tmp/e");
  const args = [...dockerdArguments(layout, layout.containerdSocket, true), ...containerdArguments(layout)];
  for (const option of [
    "--data-root",
    "--exec-root",
    "--pidfile",
    "--host",
    "--root",
    "--state",
    "--address",
  ]) {
    const value = (args[args.indexOf(option) + 1] ?? "").replace("unix://", "");
    expect(value.startsWith("/tmp/e/"), option).toBe(true);
  }
  expect(args).toContain("--iptables=false");
  expect(args[args.indexOf("--bridge") + 1]).toMatch(/^hf[0-9a-f]{10}$/);
});

test("two roots have two bridges, and a bridge's name fits the kernel's fifteen characters", () => {
  const one = engineLayout("/tmp/a").bridge;
  const two = engineLayout("/tmp/b").bridge;
  expect(one?.name).not.toBe(two?.name);
  expect(one?.name.length).toBeLessThanOrEqual(15);
});

test("the usual engine does without rules only where iptables is missing", () => {
  const layout = engineLayout(undefined);
  expect(dockerdArguments(layout, "/c.sock", true)).not.toContain("--iptables=false");
  expect(dockerdArguments(layout, "/c.sock", false)).toContain("--iptables=false");
});

test("a root whose sockets would be too long is refused before anything starts", () => {
  expect(() => engineLayout(`/tmp/${"x".repeat(80)}`)).not.toThrow();
  expect(() => engineLayout(`/tmp/${"x".repeat(100)}`)).toThrow(TypeError);
});

const debian = { osRelease: "ID=debian\n", uid: 0, hasAptGet: true };

test.each([
  [debian, undefined],
  [{ ...debian, osRelease: 'ID=pop\nID_LIKE="ubuntu debian"\n' }, undefined],
  [{ ...debian, osRelease: "ID=fedora\n" }, "this is neither Debian nor Ubuntu"],
  [{ ...debian, osRelease: "" }, "this is neither Debian nor Ubuntu"],
  [{ ...debian, uid: 1000 }, "installing packages needs root"],
  [{ ...debian, hasAptGet: false }, "apt-get is missing"],
])("what keeps packages from being installed is said (%#)", (machine, expected) => {
  expect(installObstacle(machine)).toBe(expected);
});
