import { expect, test } from "vitest";
import { CliName } from "../../protocol/locator.ts";
import { ModelProtocol, PROTOCOL_OF_CLI, protocolProblem } from "../../protocol/model-protocol.ts";

test("every CLI has one protocol, and every protocol a CLI", () => {
  expect(Object.keys(PROTOCOL_OF_CLI)).toEqual(CliName.options);
  expect(new Set(Object.values(PROTOCOL_OF_CLI))).toEqual(new Set(ModelProtocol.options));
});

test("a CLI takes a model of its own protocol and of no other", () => {
  for (const cli of CliName.options) {
    for (const protocol of ModelProtocol.options) {
      const problem = protocolProblem(cli, protocol);
      if (protocol === PROTOCOL_OF_CLI[cli]) expect(problem, `${cli} ${protocol}`).toBeNull();
      else expect(problem, `${cli} ${protocol}`).toMatchObject({ code: "MODEL_PROTOCOL_UNFIT" });
    }
  }
});

test("the problem names both protocols, for a reader and for a program", () => {
  expect(protocolProblem("claude", "responses")).toMatchObject({
    message: "claude speaks messages, the model responses",
    details: { cli: "claude", protocol: "responses", wanted: "messages" },
  });
});

test("another word is no protocol", () => {
  for (const word of ["anthropic", "completions", "", null])
    expect(ModelProtocol.safeParse(word).success).toBe(false);
});
