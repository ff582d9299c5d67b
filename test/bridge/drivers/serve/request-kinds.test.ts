import { expect, test } from "vitest";
import {
  networkKind,
  permissionAsk,
  permissionKind,
  permissionRequest,
  questionAsk,
  questionKind,
  questionRequest,
} from "../../../../bridge/drivers/serve/request-kinds.ts";
import { PermissionRequest } from "../../../../protocol/permission.ts";
import { ALLOW_ALL } from "../../../../protocol/permission-policy.ts";
import { QuestionRequest } from "../../../../protocol/question.ts";
import { createFakeApi } from "./fake-api.ts";
import { COLOR, permission } from "./native.ts";

const native = { ...permission("ses_r", "per_1", "call_1") };
const question = (questions: unknown[] = [COLOR]) =>
  ({ id: "que_1", sessionID: "ses_r", questions, tool: { callID: "call_2" } }) as Parameters<
    typeof questionAsk
  >[0];

test("a permission is decided by the policy, or waits for the user as long as the policy says", () => {
  const kind = permissionKind(createFakeApi(), "/w", {
    default: "ask",
    rules: [
      { tool: "edit", pattern: "*", action: "deny" },
      { tool: "read", pattern: "*", action: "allow" },
    ],
    askLimitMs: 1234,
    askDefault: "allow",
  });
  const asks = (permission: string) => permissionAsk({ ...native, permission });
  expect(kind.decide(asks("bash"))).toBeNull();
  expect(kind.decide(asks("edit"))).toBe("reject");
  expect(kind.decide(asks("read"))).toBe("once");
  expect(kind.waitMs(asks("bash"))).toBe(1234);
  expect(kind.expired(asks("bash"))).toBe("once");
  const strict = permissionKind(createFakeApi(), "/w", { ...ALLOW_ALL, askDefault: "deny" });
  expect(strict.expired(asks("bash"))).toBe("reject");
});

test("each kind replies by its own call, and looks into its own list", async () => {
  const api = createFakeApi();
  const ask = permissionAsk(native);
  await permissionKind(api, "/w", ALLOW_ALL).send(ask, "once", 5);
  await permissionKind(api, "/w", ALLOW_ALL).pending(5);
  await questionKind(api, "/w", 9).send(questionAsk(question()), [["blue"]], 5);
  await questionKind(api, "/w", 9).send(questionAsk(question()), null, 5);
  await questionKind(api, "/w", 9).pending(5);
  const lost = { id: "net_1", session: "ses_r", call: null, message: "m", tries: 0 };
  await networkKind(api, "/w").send(lost, "retry", 5);
  await networkKind(api, "/w").send(lost, "reject", 5);
  await networkKind(api, "/w").pending(5);
  expect(api.calls).toEqual([
    "permission per_1 once",
    "list permissions",
    `question que_1 [["blue"]]`,
    "question que_1 null",
    "list questions",
    "network net_1 retry",
    "network net_1 reject",
    "list network",
  ]);
});

test("a question is the user's, and rejected when nobody answers", () => {
  const kind = questionKind(createFakeApi(), "/w", 77);
  const ask = questionAsk(question());
  expect([kind.decide(ask), kind.waitMs(ask), kind.expired(ask)]).toEqual([null, 77, null]);
  expect([0, 1, 16, 17].map((count) => kind.waitMs(questionAsk(question(Array(count).fill(COLOR)))))).toEqual(
    [0, 77, 77, 0],
  );
});

test("the provider is tried again after 1, 2, 4, 8 and 16 s, and the sixth time it is given up", () => {
  const kind = networkKind(createFakeApi(), "/w");
  const decided = Array.from({ length: 7 }, (_, at) => {
    const ask = { id: `net_${at}`, session: "ses_r", call: null, message: "m", tries: 0 };
    const reply = kind.decide(ask);
    return [reply ?? kind.expired(ask), reply === null ? kind.waitMs(ask) : 0, ask.tries];
  });
  expect(decided).toEqual([
    ["retry", 1000, 1],
    ["retry", 2000, 2],
    ["retry", 4000, 3],
    ["retry", 8000, 4],
    ["retry", 16_000, 5],
    ["reject", 0, 6],
    ["reject", 0, 7],
  ]);
});

test("a request keeps session and tool call; one without a tool has none", () => {
  expect(permissionAsk(native)).toEqual({
    id: "per_1",
    session: "ses_r",
    call: "call_1",
    permission: "bash",
    patterns: ["ls"],
  });
  expect(permissionAsk({ ...native, tool: null }).call).toBeNull();
  expect(permissionAsk({ ...native, tool: {} }).call).toBeNull();
  expect(questionAsk(question())).toMatchObject({ id: "que_1", session: "ses_r", call: "call_2" });
});

test("what goes to the controller fits its schema, however much the CLI says", () => {
  const huge = "x".repeat(100_000);
  const asked = permissionAsk({ ...native, permission: huge, patterns: Array(500).fill(huge) });
  expect(PermissionRequest.safeParse(permissionRequest(asked)).success).toBe(true);
  expect(asked.patterns).toHaveLength(500);
  const items = Array(40).fill({
    question: huge,
    header: huge,
    options: Array(200).fill({ label: huge, description: huge }),
  });
  const put = questionRequest(questionAsk(question(items)), [{ session: "ses_r", title: "" }]);
  expect(QuestionRequest.safeParse(put).success).toBe(true);
  expect(QuestionRequest.safeParse(questionRequest(questionAsk(question([])), [])).success).toBe(true);
});

test("several choices and own texts are as the CLI says: one choice and any text unless it says otherwise", () => {
  const shape = (item: object) => {
    const [put] = questionRequest(questionAsk(question([{ ...COLOR, ...item }])), []).items;
    return [put?.isMultiple, put?.isOpen];
  };
  expect(shape({})).toEqual([false, true]);
  expect(shape({ multiple: true, custom: false })).toEqual([true, false]);
  expect(shape({ multiple: null, custom: null })).toEqual([false, true]);
});
