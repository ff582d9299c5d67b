import { expect, test } from "vitest";
import { modelTokenWords, readModelToken } from "../../protocol/model-token.ts";

const CALLER = { member: "m-1", epoch: 3, processGeneration: 12 };
const PROOF = "p".repeat(43);

test("what a token says is read back, with members of any name", () => {
  for (const member of ["m-1", "a.b.3.4", "x", `m${"-".repeat(127)}`]) {
    const caller = { ...CALLER, member };
    const words = modelTokenWords(caller);
    expect(readModelToken(`${words}.${PROOF}`)).toEqual({ caller, words, proof: PROOF });
  }
});

test.each([
  ["nothing", ""],
  ["the placeholder", "holdfast-no-key"],
  ["a key of a provider", "sk-ant-api03-0123456789"],
  ["no member", `hfm..1.1.${PROOF}`],
  ["a member of characters that no id has", `hfm.m/1.1.1.${PROOF}`],
  ["a number written otherwise", `hfm.m-1.01.1.${PROOF}`],
  ["a number below zero", `hfm.m-1.-1.1.${PROOF}`],
  ["a number that is none", `hfm.m-1.1.x.${PROOF}`],
  ["a proof too short", `hfm.m-1.1.1.${PROOF.slice(1)}`],
  ["a proof too long", `hfm.m-1.1.1.${PROOF}p`],
  ["other characters in the proof", `hfm.m-1.1.1.${PROOF.slice(1)}+`],
  ["a line end behind it", `hfm.m-1.1.1.${PROOF}\n`],
  ["words before it", ` hfm.m-1.1.1.${PROOF}`],
  ["another kind of token", `hfx.m-1.1.1.${PROOF}`],
])("%s is no token", (_, text) => {
  expect(readModelToken(text)).toBeNull();
});
