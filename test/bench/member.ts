// The member of every bench: nothing is asked of anyone.
import type { MemberOptions } from "../../controller/store/records.ts";
import { ALLOW_ALL } from "../../protocol/permission-policy.ts";

export const MEMBER: MemberOptions = {
  model: { name: "m1", protocol: "chat-completions", contextTokens: 100_000, outputTokens: 8000 },
  permissions: ALLOW_ALL,
  background: false,
};
