/** The token with which a CLI process asks the model; see `protocol/model-token.ts`. Worth nothing but at the host's relay. */
import { createHmac } from "node:crypto";
import { type ModelCaller, modelTokenWords } from "../protocol/model-token.ts";

/** @param sandboxToken the secret of this sandbox, which the host has too; it can't be told from the result */
export function modelToken(sandboxToken: string, caller: ModelCaller): string {
  const words = modelTokenWords(caller);
  return `${words}.${createHmac("sha256", sandboxToken).update(words).digest("base64url")}`;
}
