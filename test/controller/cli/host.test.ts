import { expect, test } from "vitest";
import { cli, DEAD_ENGINE } from "../../support/cli.ts";
import { temporaryDirectory } from "../../support/temporary-directory.ts";
import { simpleRig } from "../store/rig.ts";

const env = { DOCKER_HOST: DEAD_ENGINE };

test("beside the controller that runs: residents, retained, queue and memory, and the same for machines", async () => {
  const rig = simpleRig();
  rig.member("m-2");
  rig.apply([{ type: "member.process", member: "m-1", processGeneration: 1, state: "ready", detail: "" }]);
  rig.store.setResidents("box", [{ member: "m-1", processGeneration: 1, rssBytes: 345e6 }]);
  rig.admit("t-1", "m-2");
  const shown = await cli(["host"], { store: rig.directory, env });
  expect(shown).toMatchObject({ code: 0, stderr: "" });
  expect(shown.stdout).toContain("1 resident, 0 retained of 2 members, 1 in the queue");
  expect(shown.stdout).toContain("memory: 345 MB resident");
  expect(shown.stdout).toMatch(/m-1 +box +opencode +345 MB +\S+ s ago +-\n/);
  expect(shown.stdout).toMatch(/m-2 +box +\S+ s ago +t-1\n/);
  const json = await cli(["host", "--json"], { store: rig.directory, env });
  expect(JSON.parse(json.stdout)).toMatchObject({
    residents: [{ member: "m-1", rssBytes: 345e6, turn: null }],
    queue: [{ turn: "t-1" }],
  });
});

test("without a store there is nothing to show", async () => {
  const store = `${temporaryDirectory()}/none`;
  expect(await cli(["host"], { store, env })).toEqual({
    code: 0,
    stdout: "there is no store yet\n",
    stderr: "",
  });
  expect((await cli(["host", "--json"], { store, env })).stdout).toBe("null\n");
});
