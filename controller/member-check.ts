/** What a member may be made with, or changed to: its shape, and a model whose protocol its CLI speaks. Pure. */
import * as z from "zod/mini";
import { HoldfastError } from "../protocol/errors.ts";
import { OurId } from "../protocol/ids.ts";
import { CliName } from "../protocol/locator.ts";
import { protocolProblem } from "../protocol/model-protocol.ts";
import { MemberOptions } from "./store/records.ts";

const CheckedMember = z.object({ cli: CliName, options: MemberOptions });
type CheckedMember = z.infer<typeof CheckedMember>;

/** Throws REQUEST_INVALID with the place that does not fit, and MODEL_PROTOCOL_UNFIT. */
export function checkedMember(given: CheckedMember): CheckedMember {
  const parsed = CheckedMember.safeParse(given);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join(".") ?? "";
    throw new HoldfastError("REQUEST_INVALID", `a member can't be like this (${where})`);
  }
  const problem = protocolProblem(parsed.data.cli, parsed.data.options.model.protocol);
  if (problem !== null) throw problem;
  return parsed.data;
}

/** Throws REQUEST_INVALID. */
export function checkId(id: string, what: string): void {
  if (!OurId.safeParse(id).success)
    throw new HoldfastError("REQUEST_INVALID", `${id} can't be the id of a ${what}`);
}
