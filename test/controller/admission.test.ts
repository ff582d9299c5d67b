import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { admitTurn, checkSameTurn, launchOf } from "../../controller/admission.ts";
import type { MemberOptions, MemberRow } from "../../controller/store/records.ts";
import { Launch } from "../../protocol/launch.ts";
import { changedParts, type LaunchPart, LaunchParts } from "../../protocol/launch-parts.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { BUILD } from "../support/fake-sandbox.ts";
import { OPTIONS } from "../support/member-options.ts";
import { simpleRig } from "./store/rig.ts";

function memberOf(): MemberRow {
  return simpleRig().store.member("m-1") as MemberRow;
}

test("a turn is admitted with the digest and size of its bytes, and never with its text", () => {
  const { store } = simpleRig();
  const text = "Größe 🦑\r\n /word ";
  const { turn, member } = admitTurn(store, "m-1", text, "t-1");
  expect(turn).toMatchObject({
    id: "t-1",
    state: "admitted",
    text_bytes: Buffer.byteLength(text),
    text_sha256: createHash("sha256").update(text).digest("hex"),
  });
  expect(member.submissions).toBe(1);
  expect(JSON.stringify(store.turn("t-1"))).not.toContain("Größe");
});

test("a turn without an id gets one of its own", () => {
  const { store } = simpleRig();
  expect(admitTurn(store, "m-1", "a", undefined).turn.id).toMatch(/^turn-[0-9a-f-]{36}$/);
});

test("a turn is the same one for its own member and text alone", () => {
  const { store } = simpleRig();
  const { turn } = admitTurn(store, "m-1", "one \ufffd", "t-1");
  checkSameTurn(turn, "m-1", "one \ufffd");
  for (const [member, text, code] of [
    ["m-1", "one", "TURN_ID_USED"],
    ["m-1", "one \ufffd ", "TURN_ID_USED"],
    ["m-2", "one \ufffd", "TURN_ID_USED"],
    // As UTF-8 it would have the same digest.
    ["m-1", "one \ud83e", "TURN_ID_USED"],
  ] as const)
    expect(() => checkSameTurn(turn, member, text)).toThrow(expect.objectContaining({ code }));
});

test("what can't be sent unchanged is refused, and no number is used up", () => {
  const { store } = simpleRig();
  const refused: Array<[string, string | undefined, string]> = [
    ["", undefined, "MESSAGE_EMPTY"],
    ["x".repeat(LIMITS.userTextBytes + 1), undefined, "MESSAGE_TOO_LARGE"],
    // Within the limit as characters, beyond it as bytes.
    ["ö".repeat(LIMITS.userTextBytes / 2 + 1), undefined, "MESSAGE_TOO_LARGE"],
    ["half \ud83e", undefined, "REQUEST_INVALID"],
    ["text", "no/id", "REQUEST_INVALID"],
    ["text", "", "REQUEST_INVALID"],
    ["text", "x".repeat(129), "REQUEST_INVALID"],
  ];
  for (const [text, id, code] of refused)
    expect(() => admitTurn(store, "m-1", text, id)).toThrow(expect.objectContaining({ code }));
  expect(store.member("m-1")?.submissions).toBe(0);
  expect(admitTurn(store, "m-1", "x".repeat(LIMITS.userTextBytes), undefined).turn.number).toBe(1);
});

test("a text that Claude Code would run as a command is refused for it alone, before anything is kept", () => {
  const { store } = simpleRig();
  store.createMember({
    id: "m-claude",
    sandbox: "box",
    cli: "claude",
    options: { ...OPTIONS, model: { ...OPTIONS.model, protocol: "messages" } },
  });
  const admit = (member: string, text: string) => () => admitTurn(store, member, text, undefined);
  expect(admit("m-claude", "/cost now")).toThrow(expect.objectContaining({ code: "MESSAGE_IS_COMMAND" }));
  expect(store.member("m-claude")?.submissions).toBe(0);
  expect(admit("m-1", "/cost now")().turn.number).toBe(1);
  expect(admit("m-claude", "/etc/hosts looks wrong")().turn.number).toBe(1);
});

test("a turn of nobody is refused", () => {
  expect(() => admitTurn(simpleRig().store, "m-9", "text", undefined)).toThrow(
    expect.objectContaining({ code: "MEMBER_UNKNOWN" }),
  );
});

test("texts of blanks alone are texts", () => {
  const { store } = simpleRig();
  expect(admitTurn(store, "m-1", " \n", undefined).turn.text_bytes).toBe(2);
});

test("a launch says what the member was made with, and fits the wire", () => {
  const member = memberOf();
  const { launch, launchParts } = launchOf(member, BUILD);
  expect(Launch.parse(launch)).toEqual(launch);
  expect(LaunchParts.parse(launchParts)).toEqual(launchParts);
  expect(launch).toMatchObject({ cli: "opencode", ...member.options });
});

test("the launch digest changes with everything that needs another process, by its own part, and with nothing else", () => {
  const member = memberOf();
  const { launch, launchParts } = launchOf(member, BUILD);
  const { options } = member;
  const withOptions = (changes: Partial<MemberOptions>) =>
    launchOf({ ...member, options: { ...options, ...changes } }, BUILD);
  const others: Record<LaunchPart, ReturnType<typeof launchOf>> = {
    image: launchOf(member, { ...BUILD, imageId: "sha256:other" }),
    cliVersion: launchOf(member, { ...BUILD, clis: [{ cli: "opencode", version: "1.14.51" }] }),
    model: withOptions({ model: { ...options.model, contextTokens: 1 } }),
    configuration: withOptions({ background: !options.background }),
    policy: withOptions({ permissions: { ...options.permissions, default: "deny" } }),
    environment: launchOf(member, { ...BUILD, environment: ["HTTPS_PROXY"] }),
  };
  for (const [part, other] of Object.entries(others))
    expect(changedParts(launchParts, other.launchParts)).toEqual([part]);
  const digests = Object.values(others).map((other) => other.launch.digest);
  expect(new Set([launch.digest, ...digests]).size).toBe(7);
  const same = launchOf({ ...member, id: "m-2", submissions: 9, settled_turns: 4 }, BUILD);
  expect(same.launch.digest).toBe(launch.digest);
});

test("a CLI that the build does not have can't be launched", () => {
  expect(() => launchOf(memberOf(), { ...BUILD, clis: [] })).toThrow(
    expect.objectContaining({ code: "CLI_UNKNOWN" }),
  );
});
