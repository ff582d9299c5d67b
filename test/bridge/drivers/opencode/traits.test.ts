import { expect, test } from "vitest";
import { OPENCODE } from "../../../../bridge/drivers/opencode/traits.ts";

test("P39: the ready line is the CLI's own, on a literal 127.0.0.1, alone on its line", () => {
  const port = (text: string) => text.match(OPENCODE.readyLine)?.[1];
  expect(port("opencode server listening on http://127.0.0.1:4096\n")).toBe("4096");
  expect(port("noise\nopencode server listening on http://127.0.0.1:4096\r\nmore")).toBe("4096");
  expect(port("opencode server listening on http://localhost:4096\n")).toBeUndefined();
  expect(port("opencode server listening on http://[::1]:4096\n")).toBeUndefined();
  expect(port("see: opencode server listening on http://127.0.0.1:4096\n")).toBeUndefined();
  expect(port("kilo server listening on http://127.0.0.1:4096\n")).toBeUndefined();
});

test("the server chooses its port itself, on loopback, and no secret is among its arguments", () => {
  expect(OPENCODE.args).toEqual(["serve", "--port", "0", "--hostname", "127.0.0.1"]);
});
