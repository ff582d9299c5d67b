import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { foreignBaseBuildFile, IMAGE_FOLDERS, IMAGE_NODE, IMAGE_TINI } from "../../sandbox-image/layout.ts";

const buildFile = readFileSync(new URL("../../sandbox-image/Dockerfile", import.meta.url), "utf8");

function instructions(text: string): string[] {
  const lines = text.replaceAll("\\\n", " ").split("\n");
  return lines.filter((line) => line !== "" && !line.startsWith("#")).map((line) => line.split(" ")[0] ?? "");
}

test("the image's build file needs no network and no newer builder", () => {
  expect(instructions(buildFile)).toEqual(["ARG", "FROM", "USER", "COPY", "ENV", "ENTRYPOINT"]);
  expect(buildFile).not.toMatch(/--(chmod|mount|link|from)/);
});

test("the image starts the bridge by its own node under tini", () => {
  expect(buildFile).toContain(
    `ENTRYPOINT ["${IMAGE_TINI}", "--", "${IMAGE_NODE}", "/opt/holdfast/bridge.cjs"]`,
  );
});

test("a foreign base gets the same folders with the same owners and modes", () => {
  const text = foreignBaseBuildFile();
  expect(instructions(text)).toEqual(["ARG", "FROM", "USER", "RUN"]);
  for (const { path, mode, gid } of IMAGE_FOLDERS) {
    // chown before chmod: chown drops setgid.
    expect(text).toContain(`mkdir -p ${path} && chown 0:${gid} ${path} && chmod ${mode.toString(8)} ${path}`);
  }
});

test("slots share the workspace and see nothing of the journal", () => {
  const modes = Object.fromEntries(IMAGE_FOLDERS.map(({ path, mode, gid }) => [path, [mode, gid]]));
  expect(modes["/workspace"]).toEqual([0o2775, 20_000]);
  expect(modes["/var/lib/holdfast"]).toEqual([0o700, 0]);
});
