// What members of tests are made with, where it plays no part.
import type { MemberOptions } from "../../controller/store/records.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";

export const OPTIONS: MemberOptions = {
  model: { name: "m1", protocol: "chat-completions", contextTokens: 100_000, outputTokens: 8000 },
  permissions: ALLOW_ALL,
  background: false,
};
