import { expect, test } from "vitest";
import { modelToken } from "../../../bridge/model-token.ts";
import { callersOf, provenCaller, tokenOf } from "../../../controller/relay/model-token.ts";

const CALLER = { member: "m-1", epoch: 3, processGeneration: 12 };

test("what the bridge of the sandbox made is proven, and tells whose it is", () => {
  expect(provenCaller("secret", modelToken("secret", CALLER))).toEqual(CALLER);
});

test("what another sandbox's bridge made, or what was changed, is nobody's", () => {
  const token = modelToken("secret", CALLER);
  expect(provenCaller("another secret", token)).toBeNull();
  for (let at = 0; at < token.length; at += 1) {
    const other = token[at] === "7" ? "8" : "7";
    const changed = token.slice(0, at) + other + token.slice(at + 1);
    // The last character's lowest bits are no part of the 32 bytes.
    if (at < token.length - 1) expect(provenCaller("secret", changed), changed).toBeNull();
  }
  for (const text of ["", "holdfast-no-key", "sk-ant-x", `${token}x`])
    expect(provenCaller("secret", text)).toBeNull();
});

test("the token is found where each protocol's clients put a key", () => {
  expect(tokenOf({ "x-api-key": "t" })).toBe("t");
  expect(tokenOf({ "api-key": "t" })).toBe("t");
  expect(tokenOf({ authorization: "Bearer t" })).toBe("t");
  expect(tokenOf({ authorization: "bearer  t" })).toBe("t");
  expect(tokenOf({ "x-api-key": "", authorization: "Bearer t" })).toBe("t");
  for (const headers of [{}, { authorization: "Basic dDp0" }, { authorization: "Bearer" }, { "x-key": "t" }])
    expect(tokenOf(headers)).toBeNull();
});

test("proven is not enough: the store says whether the process may still ask, in this sandbox", () => {
  const asked: unknown[] = [];
  let isRunning = true;
  const callerOf = callersOf(
    {
      mayCall(sandbox, caller) {
        asked.push([sandbox, caller]);
        return isRunning;
      },
    },
    "box",
    "secret",
  );
  const token = modelToken("secret", CALLER);
  expect(callerOf(token)).toEqual(CALLER);
  isRunning = false;
  expect(callerOf(token)).toBeNull();
  expect(asked).toEqual(Array(2).fill(["box", CALLER]));
  for (const other of [null, "x", modelToken("another", CALLER)]) expect(callerOf(other)).toBeNull();
  expect(asked).toHaveLength(2);
});
