import { expect, test } from "vitest";
import { REFUSALS, type RefusalName, rawRefusal, refusalBody } from "../../../controller/relay/refusal.ts";

const NAMES = Object.keys(REFUSALS) as RefusalName[];
const told = (name: RefusalName, protocol: Parameters<typeof refusalBody>[1]["protocol"]) =>
  JSON.parse(refusalBody(name, { protocol, message: "why", call: "id-1" }));

test("each refusal has the shape of the protocol that is spoken", () => {
  for (const name of NAMES) {
    const { messages, openai, code } = REFUSALS[name];
    expect(told(name, "messages")).toEqual({
      type: "error",
      error: { type: messages, message: "why" },
      request_id: "id-1",
    });
    for (const protocol of ["responses", "chat-completions"] as const)
      expect(told(name, protocol)).toEqual({ error: { message: "why", type: openai, param: null, code } });
    // One that the clients of all three read.
    expect(told(name, null)).toEqual({ type: "error", error: { message: "why", type: messages, code } });
  }
});

test("each has a status of an error, and a code of its own", () => {
  const codes = NAMES.map((name) => REFUSALS[name].code);
  expect(new Set(codes).size).toBe(NAMES.length);
  for (const name of NAMES) expect(REFUSALS[name].status).toBeGreaterThanOrEqual(400);
});

test("what can't be read is refused with a whole answer that ends the connection", () => {
  const text = rawRefusal("headers_too_large", "größe");
  const [head = "", body = ""] = text.split("\r\n\r\n");
  expect(head).toMatch(/^HTTP\/1\.1 431 /);
  expect(head).toContain("connection: close");
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  expect(JSON.parse(body).error.message).toBe("größe");
});
