/** Permission requests of a CLI, and the one reply that each gets. */
import * as z from "zod/mini";
import { NativeId } from "./ids.ts";
import { LIMITS } from "./limits.ts";

export const PermissionRequest = z.object({
  request: NativeId,
  session: NativeId,
  /** The CLI's own word: `bash`, `edit`, `external_directory`, … */
  permission: z.string().check(z.maxLength(128)),
  patterns: z.array(z.string().check(z.maxLength(LIMITS.reasonChars))).check(z.maxLength(64)),
});
export type PermissionRequest = z.infer<typeof PermissionRequest>;

export const PermissionReply = z.enum(["once", "reject"]);
export type PermissionReply = z.infer<typeof PermissionReply>;
